package dispatcher

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/gormjobs/gormjobs/models"
)

var (
	errNoKey       = errors.New("the key is empty")
	errShortPeriod = errors.New("the period is shorter than 1ms")
)

func (r *Request) refuse(err error, option string) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%w: %s: %w", ErrOption, option, err)
	}
}

// row is a request that the database can take.
type row struct {
	jobType, queue string
	payload        string
	metadata       any // string or nil
	bytes          int // of payload and metadata, what a row's size varies by
	priority       int
	maxAttempts    int
	delay          int64 // microseconds; 0: none
	at             int64 // microseconds since 1970; 0: none
	unique         string
	period         int64 // microseconds; 0: until finished
}

// newRow applies the options and checks everything that the database would
// refuse, cut, or choke on.
func newRow(p models.Payload, opts []Option) (row, error) {
	if isNil(p) {
		return row{}, fmt.Errorf("%w: it is nil", ErrPayload)
	}
	jobType := p.JobType()
	if err := models.CheckName(jobType); err != nil {
		return row{}, fmt.Errorf("%w: JobType of %T: %w", ErrPayload, p, err)
	}
	r := Request{Payload: p, Queue: DefaultQueue, MaxAttempts: DefaultMaxAttempts}
	if d, ok := p.(Defaults); ok {
		r.apply(d.JobOptions())
	}
	r.apply(opts)
	if r.err != nil {
		return row{}, fmt.Errorf("%s: %w", jobType, r.err)
	}
	if err := r.check(); err != nil {
		return row{}, fmt.Errorf("%s: %w", jobType, err)
	}
	payload, err := encode(p)
	if err != nil {
		return row{}, fmt.Errorf("%w: %s: %w", ErrPayload, jobType, err)
	}
	metadata, size, err := r.metadata()
	if err != nil {
		return row{}, fmt.Errorf("%s: %w", jobType, err)
	}
	return row{
		jobType: jobType, queue: r.Queue, payload: payload, metadata: metadata,
		bytes: len(payload) + size, priority: r.Priority, maxAttempts: r.MaxAttempts,
		delay: max(0, r.Delay.Microseconds()), at: int64(models.At(r.At)),
		unique: r.UniqueKey, period: r.UniqueFor.Microseconds(),
	}, nil
}

func (r *Request) apply(opts []Option) {
	for _, o := range opts {
		if o != nil {
			o(r)
		}
	}
}

// check looks at the fields again: an application's own option sets them without
// the checks of ours.
func (r *Request) check() error {
	r.refuse(models.CheckName(r.Queue), "Queue")
	if r.Priority < math.MinInt16 || r.Priority > math.MaxInt16 {
		r.refuse(fmt.Errorf("%d is not between %d and %d", r.Priority, math.MinInt16, math.MaxInt16), "Priority")
	}
	r.refuse(checkMaxAttempts(r.MaxAttempts), "MaxAttempts")
	if r.UniqueFor < 0 || r.UniqueFor > 0 && r.UniqueFor < time.Millisecond {
		r.refuse(errShortPeriod, "UniqueFor")
	}
	if y := r.At.Year(); !r.At.IsZero() && (y < 1970 || y > 9999) {
		if y > 9999 {
			r.refuse(fmt.Errorf("the year %d is after 9999", y), "At")
		}
		r.At = time.UnixMicro(1) // long past: now
	}
	return r.err
}

func checkMaxAttempts(n int) error {
	if n < 1 || n > math.MaxInt16 {
		return fmt.Errorf("%d is not between 1 and %d", n, math.MaxInt16)
	}
	return nil
}

// metadata is the text, or nil, and its size.
func (r *Request) metadata() (any, int, error) {
	if len(r.Metadata) == 0 {
		return nil, 0, nil
	}
	b, err := json.Marshal(r.Metadata) // replaces what is no UTF-8
	if err != nil {
		return nil, 0, fmt.Errorf("%w: Metadata: %w", ErrOption, err)
	}
	if len(b) > models.MaxMetadata {
		return nil, 0, fmt.Errorf("%w: Metadata: %d bytes of JSON, at most %d are kept", ErrOption, len(b), models.MaxMetadata)
	}
	return string(b), len(b), nil
}

// encode is json.Marshal without its escapes for HTML.
func encode(p models.Payload) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(p); err != nil {
		return "", err
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(text) > models.MaxPayload {
		return "", fmt.Errorf("%d bytes of JSON, at most %d are kept: store the data elsewhere and enqueue its key", len(text), models.MaxPayload)
	}
	// A json.RawMessage is not checked by encoding/json.
	if !utf8.Valid(text) {
		return "", errors.New("its JSON is no valid UTF-8")
	}
	if d := depth(text); d > maxDepth {
		return "", fmt.Errorf("its JSON is nested %d levels deep, at most %d are kept", d, maxDepth)
	}
	return string(text), nil
}

// maxDepth is a tenth of what PostgreSQL's stack has room for by default, and of
// what encoding/json decodes. Over its limit, PostgreSQL aborts the caller's
// transaction.
const maxDepth = 1000

// depth is how deep the arrays and objects of a valid JSON text are nested, or how
// many they are if these are no more than allowed.
func depth(text []byte) (deepest int) {
	if n := bytes.Count(text, []byte("{")) + bytes.Count(text, []byte("[")); n <= maxDepth {
		return n
	}
	level, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			level++
			deepest = max(deepest, level)
		case c == ']' || c == '}':
			level--
		}
	}
	return deepest
}

func isNil(p models.Payload) bool {
	if p == nil {
		return true
	}
	v := reflect.ValueOf(p)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// hash is what stands for type and key in the row: MySQL's collations take 'Key'
// and 'key ' for 'key'. Its first letter tells how long the key is taken: "u"
// until the job is finished, "p" for its period, which is part of the hash.
func (r row) hash(now int64) string {
	h := sha256.New()
	h.Write([]byte(r.jobType + "\x00" + r.unique))
	scope := "u"
	if r.period > 0 {
		scope = "p"
		h.Write([]byte("\x00" + strconv.FormatInt(r.period, 10) + "\x00" + strconv.FormatInt(now/r.period, 10)))
	}
	return scope + hex.EncodeToString(h.Sum(nil))
}
