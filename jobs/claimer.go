package jobs

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// ClaimerConfig says what a [Claimer] takes. The zero value works.
type ClaimerConfig struct {
	// Queue is the queue's name. Default "default".
	Queue string
	// Lease is how long a claimed job stays reserved unless it is extended.
	// Default 1m.
	Lease time.Duration
	// Name is the claimer's in the rows it reserves. Default: the host's name, the
	// process id, and something random.
	Name string
}

// Claimer takes due jobs of one queue. A [Worker] does this and everything after
// it; the Claimer is for programs with a loop of their own, which end each job
// with [Complete], [Retry], [Fail] or [Release], and [Extend] its lease meanwhile.
// It is safe for concurrent use.
type Claimer struct {
	db     *gorm.DB
	config ClaimerConfig
	claims *atomic.Uint64
	edge   *edge // of a worker, which claims one at a time; nil: claims begin at the start
}

// NewClaimer returns a claimer on db, which must not be in a transaction.
func NewClaimer(db *gorm.DB, c ClaimerConfig) (*Claimer, error) {
	if err := session.Root(db, "NewClaimer"); err != nil {
		return nil, err
	}
	c.Queue = cmp.Or(c.Queue, "default")
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.Name = cmp.Or(cleanName(c.Name), defaultName())
	if err := models.CheckName(c.Queue); err != nil {
		return nil, fmt.Errorf("NewClaimer: queue: %w", err)
	}
	if c.Lease < minLease {
		return nil, fmt.Errorf("NewClaimer: the lease %s is shorter than %s", c.Lease, minLease)
	}
	if _, err := session.In(context.Background(), db); err != nil {
		return nil, err
	}
	return &Claimer{db: db, config: c, claims: newClaims()}, nil
}

// newClaims numbers claims from a random number on. The name alone does not tell
// two claimers apart: an application may give one to several processes, and a
// process that is started again has that of the one before.
func newClaims() *atomic.Uint64 {
	n := new(atomic.Uint64)
	n.Store(rand.Uint64())
	return n
}

// Claim reserves up to limit pending jobs of the queue and returns them, by
// priority and age. No other claim gets them until the lease ends. It returns at
// once, with none if none is pending.
//
// A claim that has begun is not cut short when ctx ends: its jobs would stay
// reserved with nobody to run them. It takes 30 s at most. After an error of the
// connection it may be that jobs were reserved: they are put back at once if the
// database can be reached, and are left to the end of their lease if it cannot.
func (c *Claimer) Claim(ctx context.Context, limit int) ([]models.Job, error) {
	if err := ctx.Err(); err != nil || limit < 1 {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTimeout)
	defer cancel()
	t, err := c.claim(ctx, asked{limit: limit, free: limit, many: limit > dialect.Many})
	if err != nil {
		return nil, err
	}
	jobs := make([]models.Job, len(t.jobs))
	for i, j := range t.jobs {
		jobs[i] = *j
	}
	return jobs, nil
}

// asked is what a claim is to take.
type asked struct {
	limit int
	many  bool // there are probably many to get
	free  int  // so many have a slot; the others are claimed ahead
	bytes int  // of payloads at most ahead
	token string
	after *place // behind which, if not nil
}

// taken is what a claim has got.
type taken struct {
	jobs  []*models.Job // by priority and age
	over  []uint64      // beyond the bounds: not reserved, or put back
	bytes int           // of the payloads of both
	last  bool          // some of both are on their last attempt
	began time.Time     // of the leases, at the earliest and by the local clock: on SQLite a transaction waits for the writer
}

func (c *Claimer) claim(ctx context.Context, a asked) (taken, error) {
	t, err := c.claimFrom(ctx, a)
	if err != nil {
		return taken{}, fmt.Errorf("claim from %s: %w", c.config.Queue, err)
	}
	return t, nil
}

// claimBehind is a claim under a token of its own, of the jobs behind a.after, or of
// all.
func (c *Claimer) claimBehind(ctx context.Context, a asked) (t taken, err error) {
	a.token = c.config.Name + "." + strconv.FormatUint(c.claims.Add(1), 36)
	in, fn := session.Transaction, c.claimSelected
	if dialect.UpdateReturns(c.db) {
		in, fn = session.Autocommit, c.claimReturning // one statement
	}
	err = in(ctx, c.db, func(tx *gorm.DB) error {
		t = taken{began: time.Now()}
		return fn(tx, a, &t)
	})
	switch {
	case err != nil && dialect.Unknown(err):
		c.putBack(ctx, a.token)
	case err == nil && dialect.UpdateReturns(c.db) && len(t.over) > 0:
		c.release(ctx, a.token, t.over) // what fails is left to its lease
	}
	return t, err
}

// bound moves to over what must not be claimed ahead: a job on its last attempt,
// which a kill would fail for good though it has not begun.
func (t *taken) bound(a asked) {
	slices.SortFunc(t.jobs, inOrder)
	kept := t.jobs[:0]
	for i, j := range t.jobs {
		last := j.Attempts >= j.MaxAttempts
		t.last = t.last || last
		if last && i >= a.free {
			t.over = append(t.over, j.ID)
		} else {
			kept = append(kept, j)
		}
	}
	clear(t.jobs[len(kept):])
	t.jobs = kept
}

// putBackTimeout bounds the second try to reach a database that has just failed.
const putBackTimeout = 2 * time.Second

// putBack makes the jobs pending again that a claim may have reserved whose answer
// was lost: nobody would run them before their lease ends. It is not told if the
// database cannot be reached.
func (c *Claimer) putBack(ctx context.Context, token string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackTimeout)
	defer cancel()
	s, err := session.In(ctx, c.db)
	if err != nil {
		return
	}
	var ids []uint64
	if s.Model(&models.Job{}).Where("state = 'processing' AND reserved_by = ?", token).Pluck("id", &ids).Error == nil && len(ids) > 0 {
		c.release(ctx, token, ids)
	}
}

// release puts jobs of a claim back, uncounted and in their places.
func (c *Claimer) release(ctx context.Context, token string, ids []uint64) {
	batch := make([]*outcome, len(ids))
	for i, id := range ids {
		batch[i] = &outcome{id: id, token: token, verb: release, keepPlace: true}
	}
	_, _ = record(ctx, c.db, batch)
}

// inOrder compares two jobs by their places in a queue.
func inOrder(a, b *models.Job) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.AvailableAt, b.AvailableAt), cmp.Compare(a.ID, b.ID))
}

// pending is the read of a claim. It needs no clock, since what is not due is
// scheduled, and no filter but the index's own: rows walked over are rows locked.
// The state is a literal; a bound one loses the partial index.
func (c *Claimer) pending(tx *gorm.DB, limit int) *gorm.DB {
	return tx.Model(&models.Job{}).
		Clauses(dialect.Hint(tx, models.ClaimIndex(tx)), skipLocked()).
		Where("state = 'pending' AND queue = ?", c.config.Queue).
		Order("priority, available_at, id").Limit(limit)
}

// claimReturning is the claim of PostgreSQL and SQLite, in one statement. The
// common table expression is materialized: PostgreSQL may run a plain subquery
// once for every row of the table, and each time lock and take other jobs.
//
// The UPDATE is raw, and read by hand, because GORM's way from a row into a struct
// took much of a worker's time.
func (c *Claimer) claimReturning(tx *gorm.DB, a asked, t *taken) error {
	columns, locked := dialect.Locked(tx, a.many)
	pending := c.pending(tx, a.limit).Select(columns)
	if after := a.after; after != nil {
		pending = pending.Where("(priority, available_at, id) > (CAST(? AS smallint), CAST(? AS bigint), CAST(? AS bigint))",
			after.priority, after.availableAt, after.id)
	}
	err := c.read(a, t, tx.Raw("WITH locked AS MATERIALIZED (?) UPDATE "+tx.Statement.Quote(models.JobsTable(tx))+
		" SET state = 'processing', attempts = attempts + 1, reserved_by = ?, reserved_at = "+dialect.Now(tx)+
		", reserved_until = "+dialect.Now(tx)+" + ? WHERE "+locked+" RETURNING "+claimedColumns+", reserved_at",
		pending, a.token, c.config.Lease.Microseconds()))
	t.bound(a)
	return err
}

// read reads the rows of a claim. What the claim itself has set or asked for is
// not read. Of the payloads beyond the free slots no more is kept than may be.
func (c *Claimer) read(a asked, t *taken, query *gorm.DB) error {
	rows, err := query.Rows()
	if err != nil {
		return err
	}
	defer rows.Close()
	j := models.Job{State: models.Processing, Queue: c.config.Queue, ReservedBy: a.token}
	var lastError sql.NullString
	row := []any{&j.ID, &j.Type, &j.Priority, &j.Payload, &j.Metadata, &j.Attempts, &j.MaxAttempts,
		&j.AvailableAt, &lastError, &j.UniqueKey, &j.UniqueLive, &j.CreatedAt, &j.ReservedAt}
	free := 0 // bytes of the jobs with a slot
	for rows.Next() {
		if err := rows.Scan(row...); err != nil {
			return err
		}
		t.bytes += len(j.Payload) + len(j.Metadata)
		if len(t.jobs) < a.free {
			free = t.bytes
		} else if t.bytes-free > a.bytes {
			t.over = append(t.over, j.ID)
			continue
		}
		j.LastError = lastError.String
		j.ReservedUntil = j.ReservedAt + models.Timestamp(c.config.Lease.Microseconds())
		job := j
		t.jobs = append(t.jobs, &job)
	}
	// A stream of rows that breaks half-way is an error here, and must be: nobody
	// knows the other rows.
	return rows.Err()
}

// claimSelected is the claim of MySQL and MariaDB, which have no UPDATE …
// RETURNING: the rows are read and locked, then written by their ids.
func (c *Claimer) claimSelected(tx *gorm.DB, a asked, t *taken) error {
	err := c.read(a, t, c.pending(tx, a.limit).Select(claimedColumns+", "+dialect.Now(tx)))
	for _, j := range t.jobs {
		j.Attempts++
	}
	t.bound(a)
	if err != nil || len(t.jobs) == 0 {
		return err
	}
	ids := make([]uint64, len(t.jobs))
	for i, j := range t.jobs {
		ids[i] = j.ID
	}
	slices.Sort(ids)
	update := tx.Model(&models.Job{}).Clauses(dialect.ByID(tx)).
		Where(dialect.IDIn(tx, ids)).Where("state = 'pending'").
		Updates(map[string]any{
			"state":          models.Processing,
			"attempts":       gorm.Expr("attempts + 1"),
			"reserved_by":    a.token,
			"reserved_at":    t.jobs[0].ReservedAt,
			"reserved_until": t.jobs[0].ReservedUntil,
		})
	if update.Error != nil {
		return update.Error
	}
	if update.RowsAffected != int64(len(ids)) {
		return fmt.Errorf("%w: locked %d, wrote %d", errTorn, len(ids), update.RowsAffected)
	}
	return nil
}

// errTorn ends a claim whose write did not find the rows that its read locked.
var errTorn = errors.New("the rows of the claim changed under its locks")

// claimedColumns are what read reads, before reserved_at. Of what it leaves out, a
// pending row has NULL in due_at and finished_at.
const claimedColumns = "id, type, priority, payload, metadata, attempts, max_attempts, available_at, last_error, unique_key, unique_live, created_at"
