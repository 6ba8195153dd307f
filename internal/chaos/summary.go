//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/gormjobs/gormjobs/internal/chaos/history"
)

// summary is the line at the end.
type summary struct {
	DB      string         `json:"db"`
	Version string         `json:"version"`
	Seed    uint64         `json:"seed"`
	For     string         `json:"for"`
	Kept    bool           `json:"promises_kept"`
	Breaks  map[string]int `json:"breaks"`

	history.Report

	Died       int64 `json:"processes_died"`  // by themselves
	Stuck      int64 `json:"processes_stuck"` // after SIGTERM
	Left       int   `json:"left_at_the_end"`
	DrainedMS  int64 `json:"drained_ms"`
	DrainLimit int64 `json:"drain_limit_ms"`

	drainage
}

// slack is how far the clocks of events and of the diary may be apart.
const slack = 5 * time.Millisecond

// check reads the histories and the database, and fills the summary.
func (st *stage) check(s *summary, b *breaker) error {
	events, err := history.Read(filepath.Join(st.dir, "history"))
	if err != nil {
		return err
	}
	rows, err := collect(st.db)
	if err != nil {
		return err
	}
	s.Report = history.Check(events, rows, history.Options{Slack: slack, TickEvery: entries, OneWriter: st.server == nil})
	s.DB, s.Version, s.Seed, s.For, s.Breaks = st.options.db, st.version, st.seed, st.last.String(), b.counts
	s.Died, s.Stuck, s.Left = st.fleet.died.Load(), st.fleet.stuck.Load(), s.left
	s.DrainedMS, s.DrainLimit = s.drained.Milliseconds(), s.drainLimit.Milliseconds()
	for _, n := range s.Notes {
		fmt.Fprintln(st.out, "run again", n)
	}
	for _, c := range s.Complaints {
		fmt.Fprintln(st.out, "BROKEN:", c)
	}
	if s.Died > 0 {
		fmt.Fprintln(st.out, "BROKEN: processes ended that nobody had asked to")
	}
	if s.Stuck > 0 {
		fmt.Fprintln(st.out, "BROKEN: processes did not end", termLimit, "after SIGTERM")
	}
	if s.drained > s.drainLimit {
		fmt.Fprintln(st.out, "BROKEN: the work that was left took", s.drained, "to run out, of", s.drainLimit)
	}
	s.Kept = s.Broken() == 0 && s.Died == 0 && s.Stuck == 0 && s.drained <= s.drainLimit
	return nil
}
