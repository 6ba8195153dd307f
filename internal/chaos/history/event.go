package history

// Kind is what an event tells.
type Kind string

// The kinds of events.
const (
	Enqueued   Kind = "enqueued"    // a transaction is about to commit, or to roll back
	Committed  Kind = "committed"   // the database has said so
	RolledBack Kind = "rolled_back" // the application wanted it, and sent no commit
	Unknown    Kind = "unknown"     // the commit's answer was an error
	Start      Kind = "start"       // a handler begins
	End        Kind = "end"         // a handler is about to return
	Break      Kind = "break"       // something is broken from At until Until
	Exit       Kind = "exit"        // a process has ended
)

// Event is one line of a file.
type Event struct {
	Kind Kind   `json:"k"`
	At   int64  `json:"t"`
	Proc string `json:"p"`

	// Of a transaction.
	Tx   string `json:"tx,omitempty"` // the key of its business row
	Jobs []Put  `json:"jobs,omitempty"`

	// Of a run.
	Ref     string  `json:"ref,omitempty"`
	Job     uint64  `json:"id,omitempty"`
	Token   string  `json:"by,omitempty"`
	Attempt int     `json:"n,omitempty"`
	Outcome Outcome `json:"out,omitempty"`

	// Of a break.
	What  string `json:"what,omitempty"`
	Until int64  `json:"until,omitempty"`
}

// Put is a job that a transaction enqueued. Its Ref is unique; ids are not, since
// a database may give that of a rolled back row again.
type Put struct {
	Ref   string `json:"ref"`
	ID    uint64 `json:"id"`
	Dup   bool   `json:"dup,omitempty"` // ID is the other's, which had the key
	Key   string `json:"key,omitempty"` // of a unique job
	Delay int64  `json:"delay,omitempty"`
}

// Outcome is what a handler is about to return.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"
	Failed  Outcome = "error" // a panic too
	Discard Outcome = "discard"
	Snoozed Outcome = "snooze"
	Ended   Outcome = "ended" // the context's end, for whatever cause
)
