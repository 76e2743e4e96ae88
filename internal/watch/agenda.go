package watch

import "container/heap"

// agenda orders purchases by the time at which something may be due.
type agenda []*purchase

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].heapIndex, a[j].heapIndex = i, j
}

// Push is for container/heap.
func (a *agenda) Push(x any) {
	p := x.(*purchase)
	p.heapIndex = len(*a)
	*a = append(*a, p)
}

// Pop is for container/heap.
func (a *agenda) Pop() any {
	old := *a
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	p.heapIndex = -1
	return p
}

// put adds p, or moves it after its time has changed.
func (a *agenda) put(p *purchase) {
	if p.heapIndex >= 0 {
		heap.Fix(a, p.heapIndex)
		return
	}
	heap.Push(a, p)
}

func (a *agenda) drop(p *purchase) {
	if p.heapIndex >= 0 {
		heap.Remove(a, p.heapIndex)
	}
}

func (a *agenda) first() *purchase {
	if len(*a) == 0 {
		return nil
	}
	return (*a)[0]
}
