package history

// checkRuns looks at the handler's calls for one job.
func (c *checker) checkRuns(id uint64, runs []*run) {
	j := c.byID[id]
	ok := 0
	for i, r := range runs {
		if j == nil || j.Ref != r.Ref {
			c.complain(&c.Phantom, "job %d (%s) was run by %s, and it does not exist", id, r.Ref, r.Proc)
			continue
		}
		if r.outcome == OK {
			ok++
		}
		if due := j.CreatedAt + c.delays[j.Ref]; r.At+c.slack < due {
			c.complain(&c.Early, "job %d (%s) was begun %d µs before its time", id, r.Ref, due-r.At)
		}
		for _, next := range runs[i+1:] {
			running := r.end == 0 || next.At < r.end-c.slack
			if running && next.At < r.leaseEnd-c.slack {
				c.complain(&c.Overlap, "job %d: %s began it %d µs before the lease of %s ended, which still ran", id, next.Token, r.leaseEnd-next.At, r.Token)
			}
		}
	}
	if j != nil && !j.Tx && ok > 1 {
		c.DoneTwice++
	}
}

// blame names the break that made a run lose its job: the last one of its own
// process, or else the last that was felt by all. It may have ended just before,
// while the worker still paused.
func (c *checker) blame(r *run, reap Change) string {
	own, all := "", "nothing that was broken"
	for _, b := range c.breaks {
		switch {
		case b.At > reap.At || b.Until < r.At-1_000_000:
		case b.Ref == r.Proc:
			own = b.What
		case b.Ref == "" || c.oneWriter && (b.What == "stop" || b.What == "freeze a scheduler"):
			all = b.What
		}
	}
	if own != "" {
		return own
	}
	return all
}
