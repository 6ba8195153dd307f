package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/models"
)

// DefaultTimeout is how long a handler may run unless it is registered with
// another [Timeout].
const DefaultTimeout = 10 * time.Minute

// Registry maps job types to handlers. It is safe for concurrent use, but what is
// registered after a worker has started may meet jobs that it has put back
// already.
type Registry struct {
	mu         sync.RWMutex
	handlers   map[string]*Handler
	middleware []Middleware
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{handlers: map[string]*Handler{}} }

// Func runs one job. Its error is the handler's, see [Judge].
type Func func(ctx context.Context, job *models.Job) error

// Middleware wraps the handlers of a registry: for logging, tracing, metrics, a
// limit. It runs inside the worker's recovery, so a panic passes through it.
type Middleware func(next Func) Func

// Use wraps all handlers, those registered already too, with m; the first given
// is the outermost.
func (r *Registry) Use(m ...Middleware) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.middleware = append(slices.Clip(r.middleware), m...)
}

// Lookup returns the handler of a job type.
func (r *Registry) Lookup(jobType string) (*Handler, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	h, ok := r.handlers[jobType]
	return h, ok
}

// Types returns the registered job types, sorted.
func (r *Registry) Types() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	types := make([]string, 0, len(r.handlers))
	for t := range r.handlers {
		types = append(types, t)
	}
	slices.Sort(types)
	return types
}

func (r *Registry) wrap(f Func) Func {
	r.mu.RLock()
	chain := r.middleware
	r.mu.RUnlock()
	for _, m := range slices.Backward(chain) {
		f = m(f)
	}
	return f
}

// Handler is what the registry has for one job type. Workers use it.
type Handler struct {
	registry *Registry
	jobType  string
	timeout  time.Duration
	backoff  func(attempt int) time.Duration
	run      Func
	runTx    func(ctx context.Context, tx *gorm.DB, job *models.Job) error
}

// Option is a setting of one handler.
type Option func(*Handler)

// Timeout ends the context of a run after d; the default is 10 minutes. A run
// that heeds it fails like any other. One that does not goes on, keeps its slot
// and its lease, and is reported. Zero or less means no timeout.
func Timeout(d time.Duration) Option { return func(h *Handler) { h.timeout = max(0, d) } }

// Backoff replaces [DefaultBackoff]: how long the job waits after its attempt-th
// run, counted from 1, has failed. A negative wait is taken for none. f is called
// from several goroutines.
func Backoff(f func(attempt int) time.Duration) Option {
	return func(h *Handler) {
		if f != nil {
			h.backoff = f
		}
	}
}

// Register makes fn the handler of T's job type. It panics, since it is a mistake
// in the program, if T's type has a handler already or its name is not one.
//
// fn may run more than once for a job: after an error, and when a worker died
// between fn's return and its record. It must heed its context, which ends at the
// timeout, at a shutdown that has waited long enough, and when the worker has lost
// the job (context.Cause is then jobs.ErrLost). Runs share goroutines: what fn sets
// for its own, such as a locked thread or profiler labels, it must undo.
func Register[T models.Payload](r *Registry, fn func(context.Context, T) error, opts ...Option) {
	if fn == nil {
		panic("handlers: Register: the function is nil")
	}
	h := newHandler[T](r, opts)
	h.run = func(ctx context.Context, job *models.Job) error {
		payload, err := decode[T](job)
		if err != nil {
			return err
		}
		return fn(ctx, payload)
	}
	r.add(h)
}

// RegisterTx is like [Register], but fn's writes through tx commit together with
// the job's completion: they happen exactly once, or not at all if fn returns an
// error or the job was lost meanwhile. tx is the application's own handle in a
// transaction (READ COMMITTED on the servers) that the worker ends; its Commit and
// Rollback return an error. Anything fn does elsewhere, like sending a mail,
// happens at least once as with Register.
//
// The transaction is open while fn runs: keep it short. On SQLite it holds the
// only writer, and everybody else waits.
func RegisterTx[T models.Payload](r *Registry, fn func(ctx context.Context, tx *gorm.DB, payload T) error, opts ...Option) {
	if fn == nil {
		panic("handlers: RegisterTx: the function is nil")
	}
	h := newHandler[T](r, opts)
	h.runTx = func(ctx context.Context, tx *gorm.DB, job *models.Job) error {
		payload, err := decode[T](job)
		if err != nil {
			return err
		}
		return fn(ctx, tx, payload)
	}
	r.add(h)
}

func newHandler[T models.Payload](r *Registry, opts []Option) *Handler {
	if r == nil {
		panic("handlers: the registry is nil: make one with NewRegistry")
	}
	if typ := reflect.TypeFor[T](); typ.Kind() == reflect.Interface {
		panic(fmt.Sprintf("handlers: %s is an interface: a handler takes the type of its payload", typ))
	}
	h := &Handler{registry: r, jobType: zero[T]().JobType(), timeout: DefaultTimeout, backoff: DefaultBackoff}
	if err := models.CheckName(h.jobType); err != nil {
		panic(fmt.Sprintf("handlers: JobType of a zero %T, on whose fields it must not depend: %v", zero[T](), err))
	}
	for _, o := range opts {
		o(h)
	}
	return h
}

func (r *Registry) add(h *Handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.handlers[h.jobType]; ok {
		panic(fmt.Sprintf("handlers: job type %q is registered twice", h.jobType))
	}
	r.handlers[h.jobType] = h
}

// zero returns a T whose JobType can be called: an allocated one if T is a
// pointer.
func zero[T models.Payload]() T {
	var t T
	if typ := reflect.TypeFor[T](); typ.Kind() == reflect.Pointer {
		t = reflect.New(typ.Elem()).Interface().(T)
	}
	return t
}

func decode[T models.Payload](job *models.Job) (T, error) {
	payload := zero[T]()
	if err := json.Unmarshal([]byte(job.Payload), &payload); err != nil {
		return payload, fmt.Errorf("decode the payload of job %d into a %T: %w", job.ID, payload, withoutValue(err))
	}
	return payload, nil
}

// withoutValue takes what the payload holds out of a decoding error, which is
// recorded and logged.
func withoutValue(err error) error {
	var mismatch *json.UnmarshalTypeError
	var noTime *time.ParseError
	switch {
	case errors.As(err, &mismatch):
		clean := *mismatch
		clean.Value, _, _ = strings.Cut(mismatch.Value, " ") // "number 4111111111111111"
		return &clean
	case errors.As(err, &noTime):
		return fmt.Errorf("a time is not in the form %q", noTime.Layout)
	}
	return err
}
