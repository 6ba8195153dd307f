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
	jobs, _, err := c.claim(ctx, limit)
	return jobs, err
}

// claim also returns when the leases began at the earliest, by the local clock:
// not before the transaction had, which on SQLite waits for the writer.
func (c *Claimer) claim(ctx context.Context, limit int) (jobs []models.Job, began time.Time, err error) {
	token := c.config.Name + "." + strconv.FormatUint(c.claims.Add(1), 36)
	jobs, began, err = c.claimFrom(ctx, limit, token)
	if err != nil {
		if dialect.Unknown(err) {
			c.putBack(ctx, token)
		}
		return nil, began, fmt.Errorf("claim from %s: %w", c.config.Queue, err)
	}
	slices.SortFunc(jobs, inOrder)
	return jobs, began, nil
}

// claimBehind is one claim of the jobs behind after, or of all.
func (c *Claimer) claimBehind(ctx context.Context, limit int, token string, after *place) (jobs []models.Job, began time.Time, err error) {
	if dialect.UpdateReturns(c.db) {
		err = session.Autocommit(ctx, c.db, func(s *gorm.DB) (err error) {
			began = time.Now()
			jobs, err = c.claimReturning(s, limit, token, after)
			return err
		})
		return jobs, began, err
	}
	err = session.Transaction(ctx, c.db, func(tx *gorm.DB) (err error) {
		began = time.Now()
		jobs, err = c.claimSelected(tx, limit, token)
		return err
	})
	return jobs, began, err
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
	if s.Model(&models.Job{}).Where("state = 'processing' AND reserved_by = ?", token).Pluck("id", &ids).Error != nil {
		return
	}
	batch := make([]*outcome, len(ids))
	for i, id := range ids {
		batch[i] = &outcome{id: id, token: token, verb: release, keepPlace: true}
	}
	if len(batch) > 0 {
		_, _ = record(ctx, c.db, batch)
	}
}

// inOrder compares two jobs by their places in a queue.
func inOrder(a, b models.Job) int {
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
// was a quarter of a worker's time.
func (c *Claimer) claimReturning(tx *gorm.DB, limit int, token string, after *place) ([]models.Job, error) {
	pending := c.pending(tx, limit).Select("id")
	if after != nil {
		pending = pending.Where("(priority, available_at, id) > (CAST(? AS smallint), CAST(? AS bigint), CAST(? AS bigint))",
			after.priority, after.availableAt, after.id)
	}
	return c.read(limit, token, tx.Raw("WITH claimed AS MATERIALIZED (?) UPDATE "+tx.Statement.Quote(models.JobsTable(tx))+
		" SET state = 'processing', attempts = attempts + 1, reserved_by = ?, reserved_at = "+dialect.Now(tx)+
		", reserved_until = "+dialect.Now(tx)+" + ? WHERE id IN (SELECT id FROM claimed) AND state = 'pending' RETURNING "+claimedColumns+", reserved_at",
		pending, token, c.config.Lease.Microseconds()))
}

// read reads the rows of a claim. What the claim itself has set or asked for is
// not read.
func (c *Claimer) read(limit int, token string, query *gorm.DB) ([]models.Job, error) {
	rows, err := query.Rows()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	jobs := make([]models.Job, 0, min(limit, 64))
	for rows.Next() {
		jobs = append(jobs, models.Job{State: models.Processing, Queue: c.config.Queue, ReservedBy: token})
		j := &jobs[len(jobs)-1]
		var lastError sql.NullString
		if err := rows.Scan(&j.ID, &j.Type, &j.Priority, &j.Payload, &j.Metadata, &j.Attempts, &j.MaxAttempts,
			&j.AvailableAt, &lastError, &j.UniqueKey, &j.UniqueLive, &j.CreatedAt, &j.ReservedAt); err != nil {
			return nil, err
		}
		j.LastError = lastError.String
		j.ReservedUntil = j.ReservedAt + models.Timestamp(c.config.Lease.Microseconds())
	}
	// A stream of rows that breaks half-way is an error here, and must be: the
	// server has rolled the transaction back by then.
	return jobs, rows.Err()
}

// claimSelected is the claim of MySQL and MariaDB, which have no UPDATE …
// RETURNING: the rows are read and locked, then written by their ids.
func (c *Claimer) claimSelected(tx *gorm.DB, limit int, token string) ([]models.Job, error) {
	jobs, err := c.read(limit, token, c.pending(tx, limit).Select(claimedColumns+", "+dialect.Now(tx)))
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	ids := make([]uint64, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
		jobs[i].Attempts++
	}
	slices.Sort(ids)
	update := tx.Model(&models.Job{}).Clauses(dialect.ByID(tx)).
		Where(dialect.IDIn(tx, ids)).Where("state = 'pending'").
		Updates(map[string]any{
			"state":          models.Processing,
			"attempts":       gorm.Expr("attempts + 1"),
			"reserved_by":    token,
			"reserved_at":    jobs[0].ReservedAt,
			"reserved_until": jobs[0].ReservedUntil,
		})
	if update.Error != nil {
		return nil, update.Error
	}
	if update.RowsAffected != int64(len(ids)) {
		return nil, fmt.Errorf("%w: locked %d, wrote %d", errTorn, len(ids), update.RowsAffected)
	}
	return jobs, nil
}

// errTorn ends a claim whose write did not find the rows that its read locked.
var errTorn = errors.New("the rows of the claim changed under its locks")

// claimedColumns are what read reads, before reserved_at. Of what it leaves out, a
// pending row has NULL in due_at and finished_at.
const claimedColumns = "id, type, priority, payload, metadata, attempts, max_attempts, available_at, last_error, unique_key, unique_live, created_at"
