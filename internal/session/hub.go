package session

import (
	"sync"
	"sync/atomic"
	"time"
)

// News tells a worker of this process about jobs in a queue.
type News struct {
	Queue string
	// Committed: the jobs are there. Else they were inserted in a transaction of
	// the application that is still open, and may come soon or never.
	Committed bool
}

// Hub passes news from the enqueuing side of a process to its workers. The zero
// value is ready.
type Hub struct {
	mu   sync.RWMutex
	subs map[int]func(News)
	next int

	unheard atomic.Pointer[time.Time] // when last nobody listened for notifications
}

// quiet is how long nobody is taken to listen after nobody did. A worker that
// begins to listen meanwhile still looks by itself more often than that.
const quiet = 250 * time.Millisecond

// Quiet tells whether notifications may be left out for now: within the last
// moments nobody listened for them.
func (h *Hub) Quiet() bool {
	t := h.unheard.Load()
	return t != nil && time.Since(*t) < quiet
}

// Heard takes note of whether somebody listened just now.
func (h *Hub) Heard(yes bool) {
	if yes {
		h.unheard.Store(nil)
		return
	}
	now := time.Now()
	h.unheard.Store(&now)
}

// Subscribe makes fn hear all news until the returned function is called. fn must
// not block.
func (h *Hub) Subscribe(fn func(News)) (cancel func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = map[int]func(News){}
	}
	id := h.next
	h.next++
	h.subs[id] = fn
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs, id)
	}
}

// Tell passes news on.
func (h *Hub) Tell(n News) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, fn := range h.subs {
		fn(n)
	}
}
