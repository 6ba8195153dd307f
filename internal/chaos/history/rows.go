package history

// Rows is what is in the database at the end.
type Rows struct {
	Orders   map[string]bool // keys of the business rows
	Jobs     []Job
	Failures []Failure
	Effects  []Effect
	Diary    []Change // in the order in which it was written
}

// Job is a job's row.
type Job struct {
	ID          uint64
	Ref         string // empty: a cron job
	State       string
	Attempts    int
	MaxAttempts int
	Token       string
	Key         string // the hash of a unique job's
	CreatedAt   int64
	FinishedAt  int64
	Tx          bool   // its handler was registered with RegisterTx
	Entry       string // of a cron job: the entry
	Tick        int64  // and the tick, in seconds
}

// Failure is a failed attempt's row.
type Failure struct {
	Job     uint64
	Attempt int
}

// Effect is a row that a RegisterTx handler wrote.
type Effect struct {
	Job   uint64
	Ref   string
	Token string
}

// Change is what happened to one job's row. The columns before and after it; Was
// is empty of a row that was inserted, and Is of one that was deleted.
type Change struct {
	Job                   uint64
	Was, Is               string // state
	WasToken, IsToken     string
	WasAttempts, Attempts int
	WasUntil, Until       int64 // the lease's end
	At                    int64
}

func finished(state string) bool {
	return state == "completed" || state == "failed" || state == "cancelled"
}
