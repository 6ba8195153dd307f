package history

import "fmt"

// Report is what the checker found. The first part must be all zero.
type Report struct {
	Lost     int `json:"lost"`           // committed, and no final state
	Phantom  int `json:"phantom"`        // rolled back, and yet there, or run
	Overlap  int `json:"overlap"`        // two runs at once, the first with a valid lease
	Twice    int `json:"finished_twice"` // finished, and changed again
	Foreign  int `json:"foreign"`        // an outcome that is not that of the run which had the job
	Effects  int `json:"effects_wrong"`  // of RegisterTx, other than exactly once
	Attempts int `json:"attempts_wrong"` // attempts and failure rows that do not add up
	Unique   int `json:"unique_wrong"`   // two jobs with one key at once
	Ticks    int `json:"ticks_wrong"`    // a tick with two jobs, or with none
	Early    int `json:"early"`          // begun before its delay was over

	Jobs      int `json:"jobs"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"` // after their last attempt
	CronJobs  int `json:"cron_jobs"`
	Runs      int `json:"runs"`
	Renewals  int `json:"renewals"`
	Reaped    int `json:"reaped"`
	Released  int `json:"released"`

	Transactions    int            `json:"transactions"`
	RolledBack      int            `json:"rolled_back"`
	UnknownCommits  int            `json:"unknown_commits"`
	UnknownThere    int            `json:"unknown_committed"` // of these, those whose business row is there
	Duplicates      int            `json:"duplicates"`
	EffectsOnce     int            `json:"effects_once"`
	StaleEnds       int            `json:"stale_ends"` // a run that ended when it had lost its job
	RunAgain        int            `json:"run_again"`  // runs of plain handlers that another run followed because their job was reaped
	DoneTwice       int            `json:"done_twice"` // jobs whose plain handler returned nil more than once
	AfterWhichBreak map[string]int `json:"run_again_after"`

	Complaints []string `json:"-"` // the first of each count
	Notes      []string `json:"-"` // the first runs that were run again after each break
}

// Broken tells how many promises were broken.
func (r *Report) Broken() int {
	return r.Lost + r.Phantom + r.Overlap + r.Twice + r.Foreign + r.Effects + r.Attempts + r.Unique + r.Ticks + r.Early
}

// complain counts, and keeps some texts of each kind.
func (r *Report) complain(n *int, format string, args ...any) {
	if *n++; *n <= 8 {
		r.Complaints = append(r.Complaints, fmt.Sprintf(format, args...))
	}
}
