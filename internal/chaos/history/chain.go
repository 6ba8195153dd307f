package history

import "fmt"

// chain follows the diary of one job: every change must fit the one before it, and
// every end of a claim the run that had it.
func (c *checker) chain(id uint64, changes []Change) {
	var done bool
	tokens := map[string]bool{}
	for i, d := range changes {
		if i > 0 && (d.Was != changes[i-1].Is || d.WasToken != changes[i-1].IsToken || d.WasAttempts != changes[i-1].Attempts) {
			c.complain(&c.Twice, "job %d: its row was %s (%s) after it had become %s (%s)", id, d.Was, d.WasToken, changes[i-1].Is, changes[i-1].IsToken)
		}
		if done {
			c.complain(&c.Twice, "job %d was %s, and then became %s", id, d.Was, d.Is)
		}
		done = done || finished(d.Is)
		switch {
		case d.Is == "":
			c.complain(&c.Lost, "job %d was deleted", id)
		case d.Was == "processing" && d.Is == "processing":
			c.Renewals++
			c.lease(id, d)
			if d.WasToken != d.IsToken {
				c.complain(&c.Foreign, "job %d was taken by %s while %s had it", id, d.IsToken, d.WasToken)
			}
		case d.Is == "processing":
			c.claim(id, d, tokens)
		case d.Was == "processing" && d.IsToken == "":
			c.reap(id, d)
		case d.Was == "processing":
			c.outcome(id, d)
		}
	}
}

func (c *checker) claim(id uint64, d Change, tokens map[string]bool) {
	if d.Was != "pending" || d.Attempts != d.WasAttempts+1 || tokens[d.IsToken] {
		c.complain(&c.Attempts, "job %d: claimed by %s while %s, from attempt %d to %d", id, d.IsToken, d.Was, d.WasAttempts, d.Attempts)
	}
	tokens[d.IsToken] = true
	c.lease(id, d)
}

func (c *checker) lease(id uint64, d Change) {
	if r := c.runOf(id, d.IsToken); r != nil {
		r.leaseEnd = max(r.leaseEnd, d.Until)
	}
}

// reap must come after the lease.
func (c *checker) reap(id uint64, d Change) {
	c.Reaped++
	if d.At < d.WasUntil {
		c.complain(&c.Overlap, "job %d was taken back from %s %d µs before its lease ended", id, d.WasToken, d.WasUntil-d.At)
	}
	r := c.runOf(id, d.WasToken)
	if r == nil {
		return // it had not begun
	}
	if r.outcome != "" {
		c.StaleEnds++
	}
	if j := c.byID[id]; j != nil && !j.Tx && finishedLater(c.runs[id], r) {
		c.RunAgain++
		what := c.blame(r, d)
		if c.AfterWhichBreak[what]++; c.AfterWhichBreak[what] <= 5 {
			c.Notes = append(c.Notes, fmt.Sprintf("after %s: job %d, attempt %d of %s: begun at %d, ended %+d ms (%s), lease until %+d ms, reaped at %+d ms",
				what, id, r.Attempt, r.Proc, r.At, (r.end-r.At)/1000, r.outcome, (d.WasUntil-r.At)/1000, (d.At-r.At)/1000))
		}
	}
}

func finishedLater(runs []*run, r *run) bool { return runs[len(runs)-1] != r }

// outcome must be that of the very run which had the job, and come after it.
func (c *checker) outcome(id uint64, d Change) {
	r, j := c.runOf(id, d.WasToken), c.byID[id]
	tx := j != nil && j.Tx
	before := r != nil && r.outcome != "" && r.end <= d.At+c.slack
	var fits bool
	switch {
	case d.WasToken != d.IsToken:
	case d.Is == "completed":
		fits = before && r.outcome == OK && d.Attempts == d.WasAttempts
	case d.Attempts == d.WasAttempts-1: // released: unstarted, snoozed, or at a shutdown
		c.Released++
		// At a shutdown any error is taken for the end of its time.
		fits = d.Is != "failed" && (tx || r == nil || before && r.outcome != OK)
	case d.Attempts == d.WasAttempts: // a failed attempt
		// A RegisterTx handler's transaction may fail before the handler and after it.
		fits = tx || before && (r.outcome == Failed || r.outcome == Discard || r.outcome == Ended)
	}
	if !fits {
		c.complain(&c.Foreign, "job %d: %s (attempt %d) became %s (attempt %d) by %s, whose run %s", id, d.Was, d.WasAttempts, d.Is, d.Attempts, d.WasToken, describe(r, d))
	}
}

func describe(r *run, d Change) string {
	switch {
	case r == nil:
		return "never began"
	case r.outcome == "":
		return "had not ended"
	case r.end > d.At:
		return "ended later, with " + string(r.outcome)
	}
	return "ended with " + string(r.outcome)
}
