package deliver

import (
	"container/heap"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// wait is a purchase whose newest event is to be decided again at a moment,
// because an alarm dwells, lasts or is silenced.
type wait struct {
	lane     string
	env      events.Envelope
	until    time.Time
	unproven bool // not known to have been settled by this sink: it may still be on its way
	index    int
}

// waits are kept in memory only: they are computed from the newest message of
// each purchase whenever the sink begins.
type waits struct {
	heap      waitHeap
	bySubject map[string]*wait
}

func newWaits() *waits { return &waits{bySubject: map[string]*wait{}} }

func (w *waits) len() int { return len(w.heap) }

// set replaces what the purchase waits for.
func (w *waits) set(one wait) {
	// Its bytes are written again from the event where they are needed.
	one.env.Raw, one.env.Document = nil, events.Document{}
	w.remove(one.env.Subject)
	w.bySubject[one.env.Subject] = &one
	heap.Push(&w.heap, &one)
}

// remove forgets the purchase.
func (w *waits) remove(subject string) {
	if old, ok := w.bySubject[subject]; ok {
		heap.Remove(&w.heap, old.index)
		delete(w.bySubject, subject)
	}
}

// next is the earliest moment; zero: none.
func (w *waits) next() time.Time {
	if len(w.heap) == 0 {
		return time.Time{}
	}
	return w.heap[0].until
}

// due takes up to limit waits whose moment has come.
func (w *waits) due(now time.Time, limit int) []wait {
	var out []wait
	for len(out) < limit && len(w.heap) > 0 && !w.heap[0].until.After(now) {
		one := heap.Pop(&w.heap).(*wait) // the heap holds nothing else
		delete(w.bySubject, one.env.Subject)
		out = append(out, *one)
	}
	return out
}

// hurry brings every wait to now: the silences have changed.
func (w *waits) hurry(now time.Time) {
	for _, one := range w.heap {
		if one.until.After(now) {
			one.until = now
		}
	}
	heap.Init(&w.heap)
}

// waitHeap is a container/heap by moment.
type waitHeap []*wait

func (h waitHeap) Len() int           { return len(h) }
func (h waitHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h waitHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is for container/heap.
func (h *waitHeap) Push(x any) {
	one := x.(*wait) // the heap holds nothing else
	one.index = len(*h)
	*h = append(*h, one)
}

// Pop is for container/heap.
func (h *waitHeap) Pop() any {
	old := *h
	one := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return one
}
