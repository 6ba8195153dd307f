package models

import "gorm.io/gorm/schema"

// Payload is what a job carries: a type of the application that names the kind
// of job it is. It is stored as JSON.
//
//	type SendWelcome struct {
//		UserID uint `json:"user_id"`
//	}
//
//	func (SendWelcome) JobType() string { return "send_welcome" }
//
// JobType is also called on a zero value, so it must not depend on the fields.
// A name has at most 100 of A-Z a-z 0-9 _ . : / and -.
type Payload interface{ JobType() string }

// State is where a job is in its life.
type State string

// The states of a job. Package jobs has the diagram of how one follows another.
const (
	// Pending: due, waiting for a worker.
	Pending State = "pending"
	// Scheduled: waiting for its time: a delay, or the backoff of a retry.
	Scheduled State = "scheduled"
	// Processing: reserved by a worker, until its lease ends.
	Processing State = "processing"
	// Completed: done.
	Completed State = "completed"
	// Failed: given up, after its last attempt or by a Discard.
	Failed State = "failed"
	// Cancelled: called off before it ran.
	Cancelled State = "cancelled"
)

// States lists all states, in the order of a job's life.
func States() []State {
	return []State{Pending, Scheduled, Processing, Completed, Failed, Cancelled}
}

// Finished tells whether a job in this state will not run again by itself.
func (s State) Finished() bool { return s == Completed || s == Failed || s == Cancelled }

// Job is one row of queue_jobs.
type Job struct {
	// ID ascends in the order of insertion, on one database.
	ID    uint64 `gorm:"column:id;primaryKey;autoIncrement" json:"id"`
	State State  `gorm:"column:state;size:16;not null" json:"state"`
	Queue string `gorm:"column:queue;size:100;not null" json:"queue"`
	Type  string `gorm:"column:type;size:100;not null" json:"type"`
	// Priority orders the due jobs of a queue, lower first.
	Priority int16 `gorm:"column:priority;not null" json:"priority"`
	// Payload is the JSON as it was enqueued, byte for byte.
	Payload JSON `gorm:"column:payload;not null" json:"payload"`
	// Metadata is a JSON object of strings: trace context, tags.
	Metadata JSON `gorm:"column:metadata" json:"metadata,omitempty"`
	// Attempts counts the runs begun, and is counted back when a run is released.
	Attempts    int `gorm:"column:attempts;not null" json:"attempts"`
	MaxAttempts int `gorm:"column:max_attempts;not null" json:"max_attempts"`
	// AvailableAt is since when the job may run. It orders jobs of one priority.
	AvailableAt Timestamp `gorm:"column:available_at;not null" json:"available_at"`
	// DueAt is when a scheduled job becomes pending, and is set only meanwhile.
	DueAt Timestamp `gorm:"column:due_at" json:"due_at"`
	// ReservedBy is the token of the claim, unique to it. It stays on the row when
	// the run has ended, until the next claim.
	ReservedBy string `gorm:"column:reserved_by;size:100" json:"reserved_by,omitempty"`
	// ReservedAt and ReservedUntil bound the lease, by the database's clock.
	ReservedAt    Timestamp `gorm:"column:reserved_at" json:"reserved_at"`
	ReservedUntil Timestamp `gorm:"column:reserved_until" json:"reserved_until"`
	// FinishedAt is set when the job completed, failed or was cancelled.
	FinishedAt Timestamp `gorm:"column:finished_at" json:"finished_at"`
	// LastError is the text of the last failed attempt, at most 10 kB.
	LastError string `gorm:"column:last_error" json:"last_error,omitempty"`
	// UniqueKey is a hash of the type and the key of a unique job. UniqueLive is
	// the same while the key is taken, and NULL when it is free again. The tag
	// keeps an application's own AutoMigrate on MySQL from dropping the index.
	UniqueKey  *string   `gorm:"column:unique_key;size:65" json:"unique_key,omitempty"`
	UniqueLive *string   `gorm:"column:unique_live;size:65;uniqueIndex:,composite:live_v1,where:unique_live IS NOT NULL" json:"-"`
	CreatedAt  Timestamp `gorm:"column:created_at;not null;autoCreateTime:false" json:"created_at"`

	// Failures are the failed attempts, for Preload("Failures").
	Failures []Failure `gorm:"foreignKey:JobID;constraint:-" json:"failures,omitempty"`
}

// TableName is queue_jobs, under the application's naming strategy.
func (Job) TableName(namer schema.Namer) string { return namer.TableName("QueueJob") }

// Failure is one failed attempt of a job, a row of queue_failures. It goes when
// its job is pruned.
type Failure struct {
	ID      uint64 `gorm:"column:id;primaryKey;autoIncrement" json:"id"`
	JobID   uint64 `gorm:"column:job_id;not null" json:"job_id"`
	Attempt int    `gorm:"column:attempt;not null" json:"attempt"`
	// Error is at most 10 kB, and Stack, set when the handler panicked, 32 kB.
	Error string `gorm:"column:error" json:"error"`
	Stack string `gorm:"column:stack" json:"stack,omitempty"`
	// Worker is the name of the worker that ran the attempt.
	Worker    string    `gorm:"column:worker;size:100" json:"worker"`
	StartedAt Timestamp `gorm:"column:started_at" json:"started_at"`
	FailedAt  Timestamp `gorm:"column:failed_at;not null" json:"failed_at"`
}

// TableName is queue_failures, under the application's naming strategy.
func (Failure) TableName(namer schema.Namer) string { return namer.TableName("QueueFailure") }

// Schedule is what the schedulers remember of one cron entry, a row of
// queue_schedules. It decides which of them acts on a tick.
type Schedule struct {
	Name string `gorm:"column:name;size:100;primaryKey" json:"name"`
	Spec string `gorm:"column:spec;size:255;not null" json:"spec"`
	// LastTick is the tick that was acted on last, NextTick the one to come.
	LastTick Timestamp `gorm:"column:last_tick" json:"last_tick"`
	NextTick Timestamp `gorm:"column:next_tick;not null" json:"next_tick"`
	// UpdatedAt is when a scheduler last changed the row.
	UpdatedAt Timestamp `gorm:"column:updated_at;not null;autoUpdateTime:false" json:"updated_at"`
}

// ReapEntry is the name of the scheduler's entry that reaps. Workers look at its
// row to see whether a scheduler is alive.
const ReapEntry = "gormjobs/reap"

// ListeningEntry is the name of a row that says until when an idle worker listens
// for notifications. Enqueue reads it, and notifies only meanwhile.
const ListeningEntry = "gormjobs/listening"

// NotifyChannel is the channel of those notifications; the payload is a queue, or
// empty for any.
const NotifyChannel = "gormjobs"

// TableName is queue_schedules, under the application's naming strategy.
func (Schedule) TableName(namer schema.Namer) string { return namer.TableName("QueueSchedule") }
