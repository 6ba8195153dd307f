package dispatcher

import (
	"database/sql"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// columns of an insert, in the order of row.values.
const columns = "queue, type, priority, payload, metadata, max_attempts, unique_key, unique_live, " +
	"state, available_at, due_at, created_at, attempts"

// due is how a row says when its job is due.
type due uint8

const (
	dueNow due = iota
	dueIn
	dueAt
)

func (r row) due() due {
	switch {
	case r.at > 0:
		return dueAt
	case r.delay > 0:
		return dueIn
	}
	return dueNow
}

// placeholders appends those of a row.
func (d due) placeholders(b *strings.Builder, s *gorm.DB) {
	b.WriteString("(?, ?, ?, ?, ?, ?, ?, ?, ")
	d.times(b, s)
	b.WriteByte(')')
}

// times appends the columns from state on. Whether a job is due, and since when,
// is decided by the database's clock.
func (d due) times(b *strings.Builder, s *gorm.DB) {
	now := dialect.Now(s)
	switch d {
	case dueAt:
		fmt.Fprintf(b, "CASE WHEN ? > %s THEN 'scheduled' ELSE 'pending' END, CASE WHEN ? > %s THEN ? ELSE %s END, NULLIF(CASE WHEN ? > %s THEN ? ELSE %s END, %s)", now, now, now, now, now, now)
	case dueIn:
		fmt.Fprintf(b, "'scheduled', %s + ?, %s + ?", now, now)
	default:
		fmt.Fprintf(b, "'pending', %s, NULL", now)
	}
	fmt.Fprintf(b, ", %s, 0", now)
}

// timesArgs are the arguments of times.
func (r row) timesArgs(args []any) []any {
	switch r.due() {
	case dueAt:
		return append(args, r.at, r.at, r.at, r.at, r.at)
	case dueIn:
		return append(args, r.delay, r.delay)
	}
	return args
}

// statement is one INSERT. It is raw because GORM's Create can neither take the
// database's now for a column nor say on every database which ids it gave.
type statement struct {
	shape
	values string // the placeholders of more than one row; empty: the shape says all
	rows   int
	queue  string
	args   []any
}

// shape is what the text of an INSERT depends on.
type shape struct {
	verb, tail string
	due        due
	array      bool // of payloads
	notify     bool
}

func (st statement) text(s *gorm.DB) string {
	var b strings.Builder
	b.WriteString(st.verb + s.Statement.Quote(models.JobsTable(s)) + " (" + columns + ") ")
	switch {
	case st.array:
		a, _ := dialect.Payloads(s)
		b.WriteString(a.Select + ", NULL, NULL, ")
		st.due.times(&b, s)
		b.WriteString(a.From)
	case st.values != "":
		b.WriteString(st.values)
	default:
		b.WriteString("VALUES ")
		st.due.placeholders(&b, s)
	}
	b.WriteString(st.tail)
	if dialect.InsertReturns(s, st.rows) {
		b.WriteString(" RETURNING id")
	}
	if st.notify {
		b.WriteString(", " + notification(s) + ", current_setting('transaction_isolation') = 'read committed'")
	}
	return b.String()
}

// insert runs the statement and returns the ids of the rows that were inserted, in
// their order.
func (st statement) insert(s *gorm.DB, hub *session.Hub) ([]uint64, error) {
	if st.values != "" {
		s = session.Unprepared(s)
	}
	if dialect.HasNotify(s) && !hub.Quiet() {
		st.notify = true
		st.args = append(st.args, st.queue)
	}
	if dialect.InsertReturns(s, st.rows) {
		ids, a, err := st.readIDs(s)
		if st.notify && len(ids) > 0 && (a.heard || a.latest) { // a duplicate has asked nothing
			hub.Heard(a.heard)
		}
		return ids, err
	}
	result := gorm.WithResult()
	if err := session.Exec(st.on(s.Clauses(result))).Error; err != nil {
		return nil, err
	}
	return st.countedIDs(s, result.Result)
}

// on is the statement on s, not executed yet.
func (st statement) on(s *gorm.DB) *gorm.DB {
	if st.values != "" {
		return session.Long(s, st.text(s), st.args...)
	}
	return session.Statement(s, st.shape, func() string { return st.text(s) }, st.args...)
}

// countedIDs are the ids of a database that tells the first one's.
func (st statement) countedIDs(s *gorm.DB, result sql.Result) ([]uint64, error) {
	if affected, err := result.RowsAffected(); err != nil || affected == 0 {
		return nil, err
	}
	first, err := result.LastInsertId()
	if err != nil {
		return nil, err
	}
	step := uint64(1)
	if st.rows > 1 {
		// The ids of one INSERT … VALUES are consecutive, by this connection's step.
		if err := s.Raw("SELECT @@auto_increment_increment").Scan(&step).Error; err != nil {
			return nil, err
		}
	}
	ids := make([]uint64, st.rows)
	for i := range ids {
		ids[i] = uint64(first) + uint64(i)*step
	}
	return ids, nil
}

// notification is an expression that, evaluated once for a statement, notifies an
// idle worker of another process that listens, and is NULL if there is none. In the
// caller's transaction it is exact: it comes with the commit, and not after a
// rollback. While nobody listens it makes no commit wait for another.
func notification(s *gorm.DB) string {
	return "(SELECT pg_notify('" + models.NotifyChannel + "', ?)::text FROM " + s.Statement.Quote(models.SchedulesTable(s)) +
		" WHERE name = '" + models.ListeningEntry + "' AND next_tick > " + dialect.Now(s) + ")"
}

// audience is what an insert has learned of those who listen.
type audience struct {
	heard  bool // somebody does
	latest bool // it has seen the latest: a transaction's snapshot may be an old one
}

// readIDs returns the ids, and what the notification has learned.
func (st statement) readIDs(s *gorm.DB) (ids []uint64, a audience, err error) {
	rows, err := st.on(s).Rows()
	if err != nil {
		return nil, a, err
	}
	defer rows.Close()
	ids = make([]uint64, 0, st.rows)
	var id uint64
	var notified sql.NullString
	into := []any{&id}
	if st.notify {
		into = append(into, &notified, &a.latest)
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, a, err
		}
		ids = append(ids, id)
	}
	a.heard = notified.Valid
	return ids, a, rows.Err()
}
