package history

import (
	"cmp"
	"slices"
	"time"
)

// job looks at the final row of one job.
func (c *checker) job(j *Job) {
	c.Jobs++
	switch j.State {
	case "completed":
		c.Completed++
	case "failed":
		c.Failed++
	default:
		c.complain(&c.Lost, "job %d (%s) is still %s", j.ID, j.Ref, j.State)
	}
	c.attempts(j)
	if j.Tx {
		c.effect(j)
	}
}

// attempts: each one failed, with a row, or was the one that completed. The diary
// must have as many claims that were not released.
func (c *checker) attempts(j *Job) {
	failed := slices.Sorted(slices.Values(c.failures[j.ID]))
	want := len(failed)
	if j.State == "completed" {
		want++
	}
	if finished(j.State) && j.Attempts != want || j.Attempts > j.MaxAttempts {
		c.complain(&c.Attempts, "job %d (%s) is %s with %d attempts of %d, and has %d failures", j.ID, j.Ref, j.State, j.Attempts, j.MaxAttempts, len(failed))
	}
	for i, n := range failed {
		if n != i+1 {
			c.complain(&c.Attempts, "job %d (%s) has failures of the attempts %v", j.ID, j.Ref, failed)
			break
		}
	}
	last := c.diary[j.ID]
	if len(last) == 0 {
		c.complain(&c.Attempts, "job %d (%s): the diary does not know it", j.ID, j.Ref)
		return
	}
	if d := last[len(last)-1]; d.Attempts != j.Attempts || d.Is != j.State || d.IsToken != j.Token {
		c.complain(&c.Attempts, "job %d (%s) is %s after %d attempts, and the diary says %s after %d", j.ID, j.Ref, j.State, j.Attempts, d.Is, d.Attempts)
	}
	if j.State == "failed" && j.Attempts < j.MaxAttempts {
		if r := c.runOf(j.ID, j.Token); r == nil || r.outcome != Discard {
			c.complain(&c.Attempts, "job %d (%s) was given up after %d attempts of %d, and not discarded", j.ID, j.Ref, j.Attempts, j.MaxAttempts)
		}
	}
}

// effect: one if the job completed, by the run that completed it, and else none.
func (c *checker) effect(j *Job) {
	got := c.effects[j.ID]
	switch {
	case j.State == "completed" && len(got) == 1 && got[0].Token == j.Token && got[0].Ref == j.Ref:
		c.EffectsOnce++
	case j.State != "completed" && len(got) == 0:
	default:
		c.complain(&c.Effects, "job %d (%s) is %s by %s, and its effects are %v", j.ID, j.Ref, j.State, j.Token, got)
	}
}

func (c *checker) strayEffects(effects []Effect) {
	for _, e := range effects {
		if j := c.byID[e.Job]; j == nil || !j.Tx {
			c.complain(&c.Effects, "an effect of job %d (%s), which does not exist", e.Job, e.Ref)
		}
	}
}

// uniqueSlack: a row's created_at is when its INSERT began, which may then have
// waited for the end of the job before it.
const uniqueSlack = int64(2 * time.Second / time.Microsecond)

// unique: the jobs of one key follow one another.
func (c *checker) unique(jobs []Job) {
	byKey := map[string][]*Job{}
	for i := range jobs {
		if k := jobs[i].Key; k != "" {
			byKey[k] = append(byKey[k], &jobs[i])
		}
	}
	for _, same := range byKey {
		slices.SortFunc(same, func(a, b *Job) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
		for i, j := range same[1:] {
			before := same[i]
			if before.FinishedAt == 0 || j.CreatedAt < before.FinishedAt-uniqueSlack {
				c.complain(&c.Unique, "job %d was enqueued while job %d had its key", j.ID, before.ID)
			}
		}
	}
}

// ticks: each of an entry has one job, from the first to the last.
func (c *checker) ticks(jobs []Job, every map[string]time.Duration) {
	seen := map[string]map[int64]uint64{}
	for _, j := range jobs {
		if j.Entry == "" {
			continue
		}
		if seen[j.Entry] == nil {
			seen[j.Entry] = map[int64]uint64{}
		}
		if other, ok := seen[j.Entry][j.Tick]; ok {
			c.complain(&c.Ticks, "the tick %d of %s has the jobs %d and %d", j.Tick, j.Entry, other, j.ID)
		}
		seen[j.Entry][j.Tick] = j.ID
	}
	for entry, step := range every {
		ticks := seen[entry]
		if len(ticks) == 0 {
			c.complain(&c.Ticks, "no tick of %s has a job", entry)
			continue
		}
		var all []int64
		for t := range ticks {
			all = append(all, t)
		}
		slices.Sort(all)
		for t := all[0]; t <= all[len(all)-1]; t += int64(step / time.Second) {
			if _, ok := ticks[t]; !ok {
				c.complain(&c.Ticks, "the tick %d of %s has no job", t, entry)
			}
		}
	}
}
