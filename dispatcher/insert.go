package dispatcher

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/models"
)

// A statement takes this much at most: MariaDB drops the connection over a packet
// of 16 MB, and PostgreSQL and MySQL take 65,535 parameters.
const (
	maxRows  = 1000
	maxBytes = 4 << 20
)

// columns of an insert, in the order of row.values.
const columns = "queue, type, priority, payload, metadata, max_attempts, unique_key, unique_live, " +
	"state, available_at, due_at, created_at, attempts"

// insert puts rows into the jobs' table and returns the receipts in their order.
// The keys of unique jobs are taken in one order, whatever the caller's, so that
// two batches never wait for each other.
func insert(s *gorm.DB, rows []row) ([]Receipt, error) {
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
		if err := insertPlain(s, rows, chunk, receipts); err != nil {
			return nil, fmt.Errorf("enqueue: %w", err)
		}
	}
	slices.SortStableFunc(keyed, func(a, b key) int { return cmp.Compare(a.hash, b.hash) })
	for _, k := range keyed {
		var err error
		if receipts[k.index], err = insertUnique(s, rows[k.index], k.hash); err != nil {
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

func insertPlain(s *gorm.DB, rows []row, chunk []int, receipts []Receipt) error {
	var b strings.Builder
	var args []any
	if len(chunk) > 1 && dialect.TakesArrays(s) && alike(rows, chunk) {
		args = arrayValues(&b, s, rows, chunk)
	} else {
		b.WriteString("VALUES ")
		for n, i := range chunk {
			if n > 0 {
				b.WriteString(", ")
			}
			args = rows[i].values(&b, args, s, nil)
		}
	}
	ids, err := insertReturning(s, "INSERT INTO ", b.String(), "", args, len(chunk), rows[chunk[0]].queue)
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

// arrayValues are rows that are alike, as one array of payloads: one text for any
// number of jobs, which the server prepares once, and a tenth of its parsing.
func arrayValues(b *strings.Builder, s *gorm.DB, rows []row, chunk []int) []any {
	size := 2
	for _, i := range chunk {
		size += len(rows[i].payload) + len(rows[i].payload)/8 + 3
	}
	payloads := make([]byte, 0, size)
	for n, i := range chunk {
		payloads = append(payloads, ',', '"')
		if n == 0 {
			payloads[0] = '{'
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
	payloads = append(payloads, '}')
	r := rows[chunk[0]]
	b.WriteString("SELECT ?, ?, CAST(? AS smallint), CAST(p AS json), CAST(? AS json), CAST(? AS bigint), NULL, NULL, ")
	args := r.times(b, []any{r.queue, r.jobType, r.priority, r.metadata, r.maxAttempts}, s)
	b.WriteString(" FROM unnest(CAST(? AS text[])) WITH ORDINALITY AS u(p, n) ORDER BY n")
	return append(args, string(payloads))
}

// insertUnique inserts r unless its key is taken. No statement here fails by the
// constraint: that would abort the caller's whole transaction on PostgreSQL.
func insertUnique(s *gorm.DB, r row, hash string) (Receipt, error) {
	var b strings.Builder
	b.WriteString("VALUES ")
	args := r.values(&b, nil, s, &hash)
	verb, tail := dialect.InsertOrSkip(s)
	// More than once only if the key's job finishes between the two statements.
	for range 10 {
		ids, err := insertReturning(s, verb, b.String(), tail, args, 1, r.queue)
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

// values appends the row's placeholders to b and its arguments to args.
func (r row) values(b *strings.Builder, args []any, s *gorm.DB, hash *string) []any {
	b.WriteString("(?, ?, ?, ?, ?, ?, ?, ?, ")
	args = append(args, r.queue, r.jobType, r.priority, r.payload, r.metadata, r.maxAttempts, hash, hash)
	args = r.times(b, args, s)
	b.WriteByte(')')
	return args
}

// times appends the columns from state on. Whether a job is due, and since when,
// is decided by the database's clock.
func (r row) times(b *strings.Builder, args []any, s *gorm.DB) []any {
	now := dialect.Now(s)
	switch {
	case r.at > 0:
		fmt.Fprintf(b, "CASE WHEN ? > %s THEN 'scheduled' ELSE 'pending' END, CASE WHEN ? > %s THEN ? ELSE %s END, NULLIF(CASE WHEN ? > %s THEN ? ELSE %s END, %s)", now, now, now, now, now, now)
		args = append(args, r.at, r.at, r.at, r.at, r.at)
	case r.delay > 0:
		fmt.Fprintf(b, "'scheduled', %s + ?, %s + ?", now, now)
		args = append(args, r.delay, r.delay)
	default:
		fmt.Fprintf(b, "'pending', %s, NULL", now)
	}
	fmt.Fprintf(b, ", %s, 0", now)
	return args
}

// insertReturning runs one INSERT of n rows and returns the ids of those that
// were inserted, in their order. It is raw because GORM's Create can neither take
// the database's now for a column nor say on every database which ids it gave.
func insertReturning(s *gorm.DB, verb, values, tail string, args []any, n int, queue string) ([]uint64, error) {
	sql := verb + s.Statement.Quote(models.JobsTable(s)) + " (" + columns + ") " + values + tail
	if dialect.InsertReturns(s) {
		sql += " RETURNING id"
		if notify := notification(s); notify != "" {
			sql, args = sql+", "+notify, append(args, queue)
		}
		return readIDs(s.Raw(sql, args...))
	}
	result := gorm.WithResult()
	if err := s.Clauses(result).Exec(sql, args...).Error; err != nil {
		return nil, err
	}
	if affected, err := result.Result.RowsAffected(); err != nil || affected == 0 {
		return nil, err
	}
	first, err := result.Result.LastInsertId()
	if err != nil {
		return nil, err
	}
	step := uint64(1)
	if n > 1 {
		// The ids of one INSERT … VALUES are consecutive, by this connection's step.
		if err := s.Raw("SELECT @@auto_increment_increment").Scan(&step).Error; err != nil {
			return nil, err
		}
	}
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = uint64(first) + uint64(i)*step
	}
	return ids, nil
}

// notification is an expression that, evaluated once for a statement, notifies an
// idle worker of another process that listens. In the caller's transaction it is
// exact: it comes with the commit, and not after a rollback. It is left out while
// nobody listens, because it makes commits wait for one another.
func notification(s *gorm.DB) string {
	if !dialect.HasNotify(s) {
		return ""
	}
	return "(SELECT pg_notify('" + models.NotifyChannel + "', ?)::text FROM " + s.Statement.Quote(models.SchedulesTable(s)) +
		" WHERE name = '" + models.ListeningEntry + "' AND next_tick > " + dialect.Now(s) + ")"
}

func readIDs(q *gorm.DB) ([]uint64, error) {
	rows, err := q.Rows()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []uint64
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	into := make([]any, len(columns))
	for i := range into {
		into[i] = new(any)
	}
	var id uint64
	into[0] = &id
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
