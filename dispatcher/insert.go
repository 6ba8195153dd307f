package dispatcher

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// A statement takes this much at most: MariaDB drops the connection over a packet
// of 16 MB, and PostgreSQL and MySQL take 65,535 parameters.
const (
	maxRows  = 1000
	maxBytes = 4 << 20
)

// insert puts rows into the jobs' table and returns the receipts in their order.
// The keys of unique jobs are taken in one order, whatever the caller's, so that
// two batches never wait for each other.
func insert(s *gorm.DB, hub *session.Hub, rows []row) ([]Receipt, error) {
	receipts := make([]Receipt, len(rows))
	var plain []int
	var keyed []key
	var now int64
	for i, r := range rows {
		if r.unique == "" {
			plain = append(plain, i)
			continue
		}
		if r.period > 0 && now == 0 {
			if err := s.Raw("SELECT " + dialect.Now(s)).Scan(&now).Error; err != nil {
				return nil, fmt.Errorf("enqueue: read the database's clock: %w", err)
			}
		}
		keyed = append(keyed, key{i, r.hash(now)})
	}
	for _, chunk := range chunks(rows, plain) {
		if err := insertPlain(s, hub, rows, chunk, receipts); err != nil {
			return nil, fmt.Errorf("enqueue: %w", err)
		}
	}
	slices.SortStableFunc(keyed, func(a, b key) int { return cmp.Compare(a.hash, b.hash) })
	for _, k := range keyed {
		var err error
		if receipts[k.index], err = insertUnique(s, hub, rows[k.index], k.hash); err != nil {
			return nil, fmt.Errorf("enqueue %s: %w", rows[k.index].jobType, err)
		}
	}
	return receipts, nil
}

type key struct {
	index int
	hash  string
}

func chunks(rows []row, indexes []int) [][]int {
	var all [][]int
	size, from := 0, 0
	for n, i := range indexes {
		if n > from && (n-from == maxRows || size+rows[i].bytes > maxBytes) {
			all = append(all, indexes[from:n])
			from, size = n, 0
		}
		size += rows[i].bytes
	}
	if from < len(indexes) {
		all = append(all, indexes[from:])
	}
	return all
}

func insertPlain(s *gorm.DB, hub *session.Hub, rows []row, chunk []int, receipts []Receipt) error {
	first := rows[chunk[0]]
	st := statement{shape: shape{verb: "INSERT INTO ", due: first.due()}, rows: len(chunk), queue: first.queue}
	array, takes := dialect.Payloads(s)
	switch {
	case len(chunk) == 1:
		st.args = first.values(nil, nil)
	case takes && alike(rows, chunk):
		st.array = true
		st.args = arrayValues(array, rows, chunk)
	default:
		st.values, st.args = manyValues(s, rows, chunk)
	}
	ids, err := st.insert(s, hub)
	if err != nil {
		return err
	}
	if len(ids) != len(chunk) {
		return fmt.Errorf("the database returned %d ids for %d jobs", len(ids), len(chunk))
	}
	for n, i := range chunk {
		receipts[i].ID = ids[n]
	}
	return nil
}

// manyValues are the VALUES of many rows and their arguments: of each row only those
// that are text, since every one of thousands is bound, sent and parsed by itself.
func manyValues(s *gorm.DB, rows []row, chunk []int) (text string, args []any) {
	var times [3]string
	b := make([]byte, 0, 160*len(chunk))
	b = append(b, "VALUES "...)
	args = make([]any, 0, 4*len(chunk))
	for n, i := range chunk {
		r, d := &rows[i], rows[i].due()
		if times[d] == "" {
			var t strings.Builder
			d.times(&t, s)
			times[d] = t.String()
		}
		if n > 0 {
			b = append(b, ", "...)
		}
		b = append(b, "(?, ?, "...)
		b = strconv.AppendInt(b, int64(r.priority), 10)
		args = append(args, r.queue, r.jobType, r.payload)
		if r.metadata == nil {
			b = append(b, ", ?, NULL, "...)
		} else {
			b = append(b, ", ?, ?, "...)
			args = append(args, r.metadata)
		}
		b = strconv.AppendInt(b, int64(r.maxAttempts), 10)
		b = append(append(append(b, ", NULL, NULL, "...), times[d]...), ')')
		args = r.timesArgs(args)
	}
	return string(b), args
}

// alike tells whether the rows differ in nothing but their payloads.
func alike(rows []row, chunk []int) bool {
	first := rows[chunk[0]]
	for _, i := range chunk[1:] {
		r := rows[i]
		r.payload, r.bytes = first.payload, first.bytes
		if r != first {
			return false
		}
	}
	return true
}

// arrayValues are the arguments of rows that are alike, with one array of payloads.
func arrayValues(a dialect.Array, rows []row, chunk []int) []any {
	size := 2
	for _, i := range chunk {
		size += len(rows[i].payload) + len(rows[i].payload)/8 + 3
	}
	payloads := make([]byte, 0, size)
	for n, i := range chunk {
		payloads = append(payloads, ',', '"')
		if n == 0 {
			payloads[0] = a.Open
		}
		for p := rows[i].payload; p != ""; {
			k := strings.IndexAny(p, `"\\`)
			if k < 0 {
				payloads = append(payloads, p...)
				break
			}
			payloads = append(append(payloads, p[:k]...), '\\', p[k])
			p = p[k+1:]
		}
		payloads = append(payloads, '"')
	}
	payloads = append(payloads, a.Close)
	r := rows[chunk[0]]
	args := r.timesArgs([]any{r.queue, r.jobType, r.priority, r.metadata, r.maxAttempts})
	return append(args, string(payloads))
}

// insertUnique inserts r unless its key is taken. No statement here fails by the
// constraint: that would abort the caller's whole transaction on PostgreSQL.
func insertUnique(s *gorm.DB, hub *session.Hub, r row, hash string) (Receipt, error) {
	verb, tail := dialect.InsertOrSkip(s)
	st := statement{shape: shape{verb: verb, tail: tail, due: r.due()}, rows: 1, queue: r.queue, args: r.values(nil, &hash)}
	// More than once only if the key's job finishes between the two statements.
	for range 10 {
		ids, err := st.insert(s, hub)
		if err != nil {
			return Receipt{}, err
		}
		if len(ids) == 1 {
			return Receipt{ID: ids[0]}, nil
		}
		// A caller's snapshot may be older than the row that holds the key, so
		// MySQL must read what is locked.
		var id uint64
		err = s.Model(&models.Job{}).Clauses(dialect.ReadLatest(s)...).Where("unique_live = ?", hash).
			Limit(1).Pluck("id", &id).Error
		if err != nil {
			return Receipt{}, fmt.Errorf("read the job that has the key: %w", err)
		}
		if id != 0 {
			return Receipt{ID: id, Duplicate: true}, nil
		}
	}
	return Receipt{}, fmt.Errorf("the unique key of %s is taken and freed faster than it can be read", r.jobType)
}

// values appends the arguments of the row's placeholders.
func (r row) values(args []any, hash *string) []any {
	return r.timesArgs(append(args, r.queue, r.jobType, r.priority, r.payload, r.metadata, r.maxAttempts, hash, hash))
}
