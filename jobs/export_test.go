package jobs

import "time"

// TakeForShort makes the worker take its jobs for short ones before it has run any,
// and claim them ahead.
func (w *Worker) TakeForShort() {
	for _, l := range w.loops {
		l.slots.runTime = average{time.Microsecond}
	}
}

// Reserved is how many jobs the worker holds.
func (w *Worker) Reserved() int { return len(w.holds.list()) }

// BytesAhead is the size of the payloads that wait for a slot.
func (w *Worker) BytesAhead() (n int) {
	for _, l := range w.loops {
		l.slots.mu.Lock()
		for _, o := range l.slots.buffer {
			n += o.size()
		}
		l.slots.mu.Unlock()
	}
	return n
}
