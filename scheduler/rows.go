package scheduler

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// reading is what the rows of some entries said at a moment of the database's
// clock.
type reading struct {
	rows map[string]models.Schedule
	now  models.Timestamp
	at   time.Time // when the answer came, by the monotonic clock
}

// until is how long it takes until a moment of the database's clock.
func (r reading) until(t models.Timestamp) time.Duration {
	const far = int64(24 * time.Hour / time.Microsecond) // year 9999 is no Duration
	return time.Duration(min(int64(t-r.now), far))*time.Microsecond - time.Since(r.at)
}

// read is one statement, if any of the rows is there.
func (s *Scheduler) read(ctx context.Context, names []string) (reading, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	r := reading{rows: map[string]models.Schedule{}}
	db, err := session.In(ctx, s.db)
	if err != nil {
		return r, err
	}
	var rows []struct {
		models.Schedule
		Clock models.Timestamp
	}
	err = db.Model(&models.Schedule{}).Select("name, spec, last_tick, next_tick, updated_at, "+dialect.Now(db)+" AS clock").
		Where("name IN ?", names).Limit(len(names)).Find(&rows).Error
	if err != nil {
		return r, fmt.Errorf("read the schedules: %w", err)
	}
	r.at = time.Now()
	for _, row := range rows {
		r.rows[row.Name], r.now = row.Schedule, row.Clock
	}
	if len(rows) == 0 {
		// Raw: it reads from no table.
		if err := db.Raw("SELECT " + dialect.Now(db)).Row().Scan(&r.now); err != nil {
			return r, fmt.Errorf("read the database's clock: %w", err)
		}
		r.at = time.Now()
	}
	return r, nil
}

// create inserts the row of e, unless another scheduler has just done that.
func (s *Scheduler) create(ctx context.Context, e *entry, next models.Timestamp) (won bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	db, err := session.In(ctx, s.db)
	if err != nil {
		return false, err
	}
	// Raw: GORM's Create cannot take the database's now for a column.
	verb, tail := dialect.InsertOrSkip(db)
	write := db.Exec(verb+db.Statement.Quote(models.Schedule{}.TableName(db.NamingStrategy))+
		" (name, spec, next_tick, updated_at) VALUES (?, ?, ?, "+dialect.Now(db)+")"+tail, e.Name, e.stored, next)
	if write.Error != nil {
		return false, fmt.Errorf("create the row of cron entry %s: %w", e.Name, write.Error)
	}
	return write.RowsAffected == 1, nil
}

// adopt gives the row of e the spec that e has in this version of the application.
// next_tick is part of the guard: if the other version acts on a tick meanwhile,
// next may be that one.
func (s *Scheduler) adopt(ctx context.Context, e *entry, row models.Schedule, next models.Timestamp) (won bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	db, err := session.In(ctx, s.db)
	if err != nil {
		return false, err
	}
	write := db.Model(&models.Schedule{}).
		Where("name = ? AND spec = ? AND next_tick = ?", e.Name, row.Spec, row.NextTick).
		Updates(map[string]any{"spec": e.stored, "next_tick": next, "updated_at": gorm.Expr(dialect.Now(db))})
	if write.Error != nil {
		return false, fmt.Errorf("change the spec of cron entry %s: %w", e.Name, write.Error)
	}
	return write.RowsAffected == 1, nil
}

// following is the tick after t as a row has it.
func (e *entry) following(t time.Time) models.Timestamp {
	next := e.schedule.next(t)
	if next.IsZero() {
		next = time.Unix(lastTick+1, 0) // a column that is not null has no "never"
	}
	return models.At(next)
}
