package history

// transactions compares what was enqueued with what is there. The business row
// decides what became of a transaction: it was written with the jobs.
func (c *checker) transactions(events []Event, rows Rows) {
	said := map[string]Kind{}
	for _, e := range events {
		switch e.Kind {
		case Committed, RolledBack, Unknown:
			said[e.Tx] = e.Kind
		}
	}
	known := map[string]bool{}
	for _, e := range events {
		if e.Kind != Enqueued {
			continue
		}
		c.Transactions++
		committed := rows.Orders[e.Tx]
		switch said[e.Tx] {
		case Committed:
			if !committed {
				c.complain(&c.Lost, "transaction %s: the commit was acknowledged, and the business row is gone", e.Tx)
			}
		case RolledBack:
			c.RolledBack++
			if committed {
				c.complain(&c.Phantom, "transaction %s was rolled back, and its business row is there", e.Tx)
			}
		default: // an error, or the process was killed
			c.UnknownCommits++
			if committed {
				c.UnknownThere++
			}
		}
		for _, p := range e.Jobs {
			known[p.Ref] = true
			c.put(e.Tx, p, committed)
		}
	}
	for ref, j := range c.byRef {
		if !known[ref] {
			c.complain(&c.Phantom, "job %d (%s): nobody enqueued it", j.ID, ref)
		}
	}
}

func (c *checker) put(tx string, p Put, committed bool) {
	j := c.byRef[p.Ref]
	switch {
	case !committed:
		if j != nil {
			c.complain(&c.Phantom, "job %d (%s): its transaction %s was rolled back, and it is there", j.ID, p.Ref, tx)
		}
	case p.Dup:
		c.Duplicates++
		if j != nil {
			c.complain(&c.Phantom, "job %d (%s): its receipt said duplicate of job %d, and it is there", j.ID, p.Ref, p.ID)
		}
		if other := c.byID[p.ID]; other == nil || other.Key == "" {
			c.complain(&c.Unique, "%s: its receipt said duplicate of job %d, which is no unique job", p.Ref, p.ID)
		}
	case j == nil:
		c.complain(&c.Lost, "%s: its transaction %s committed, and there is no row", p.Ref, tx)
	case j.ID != p.ID:
		c.complain(&c.Lost, "%s: its receipt said job %d, and it is job %d", p.Ref, p.ID, j.ID)
	default:
		c.delays[p.Ref] = p.Delay
	}
}
