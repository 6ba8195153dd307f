//go:build linux

package main

import (
	"time"

	"github.com/gormjobs/gormjobs/dispatcher"
)

// errand is what every job of the application carries.
type errand struct {
	Ref   string        `json:"ref"`
	Work  time.Duration `json:"work"`            // how long the handler takes
	Fails int           `json:"fails"`           // so many attempts fail
	How   string        `json:"how,omitempty"`   // they fail: error, panic, discard
	Until int64         `json:"until,omitempty"` // snooze until then
	Key   string        `json:"key,omitempty"`
}

// The types of jobs.
type (
	// plain jobs have an effect that the database does not see.
	plain struct{ errand }
	// book jobs write an effect in the transaction of their completion.
	book struct{ errand }
	// unique jobs have a key.
	unique struct{ errand }
	// tick is a cron job.
	tick struct {
		Entry string `json:"entry"`
	}
)

func (plain) JobType() string  { return "plain" }
func (book) JobType() string   { return "book" }
func (unique) JobType() string { return "unique" }
func (tick) JobType() string   { return "tick" }

// JobOptions makes the key one, for EnqueueMany too.
func (u unique) JobOptions() []dispatcher.Option {
	if u.Key == "" {
		return nil
	}
	return []dispatcher.Option{dispatcher.Unique(u.Key)}
}

// Order is the business row. It says whether its transaction committed.
type Order struct {
	Key string `gorm:"primaryKey;size:64"`
}

// Effect is what a book job writes. There is no unique key: a second one shows.
type Effect struct {
	ID    uint64
	Job   uint64 `gorm:"column:job_id"`
	Ref   string `gorm:"size:64"`
	Token string `gorm:"size:100"`
}

// entries are the cron jobs, and how far their ticks are apart.
var entries = map[string]time.Duration{"second": time.Second, "five-seconds": 5 * time.Second}
