package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/session"
	"github.com/gormjobs/gormjobs/models"
)

// statementTimeout bounds what the scheduler runs on the database: a server that
// drops every packet must not stop it for ever.
const statementTimeout = 30 * time.Second

// Scheduler enqueues jobs at their ticks and does the upkeep. Make one with [New].
type Scheduler struct {
	db     *gorm.DB
	config Config

	mu      sync.Mutex
	running bool
	entries []*entry
}

// ErrRunning is returned by Run and Cron of a scheduler that runs already.
var ErrRunning = errors.New("gormjobs: the scheduler is running already")

// New returns a scheduler on db, which must be the handle that the application
// opened, not a transaction. Reaping, the backlog check and pruning are entries of
// it from the start. It sends no SQL.
//
// It returns an [ErrSpec] for a spec in c that cannot be used, and another error
// for a negative value.
func New(db *gorm.DB, c Config) (*Scheduler, error) {
	if err := session.Root(db, "scheduler.New"); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("scheduler.New: %w", err)
	}
	upkeep, err := c.upkeep(db)
	if err != nil {
		return nil, fmt.Errorf("scheduler.New: %w", err)
	}
	if _, err := session.HubOf(db); err != nil {
		return nil, err
	}
	return &Scheduler{db: db, config: c, entries: upkeep}, nil
}

// Cron adds an entry. It sends no SQL: Run makes the entry's row, and the first
// tick is the first one after that.
//
// It returns an [ErrSpec] for a spec that cannot be used, a dispatcher.ErrPayload
// for a payload that is nil or whose type has no valid name, [ErrRunning] once Run
// has begun, and another error for a name that is invalid, reserved or taken.
func (s *Scheduler) Cron(e Entry) error {
	checked, err := newEntry(e)
	if err != nil {
		return err
	}
	if err := checkPayload(e); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return fmt.Errorf("cron entry %s: %w", e.Name, ErrRunning)
	}
	for _, other := range s.entries {
		if other.Name == e.Name {
			return fmt.Errorf("cron entry %s: an entry of this name is registered already", e.Name)
		}
	}
	s.entries = append(s.entries, checked)
	return nil
}

// Run acts on the ticks until ctx ends; then it waits for what it is doing, which
// ends early, and returns nil. A tick that was not committed by then is left to
// the other schedulers, or to the next start.
//
// It returns an error only from the start: a *models.MissingError if the tables
// are not there, or what the database said. A database that fails later is waited
// for.
func (s *Scheduler) Run(ctx context.Context) error {
	entries, err := s.begin()
	if err != nil {
		return err
	}
	defer s.end()
	check, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	if err := models.Check(check, s.db); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	newLoop(s, entries).run(ctx)
	return nil
}

func (s *Scheduler) begin() ([]*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return nil, ErrRunning
	}
	s.running = true
	return s.entries, nil
}

func (s *Scheduler) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
}
