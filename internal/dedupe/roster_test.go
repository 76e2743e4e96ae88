package dedupe_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/dedupe"
	"github.com/heraldbridge/herald/internal/redistest"
)

// group is names and whoever owns them, over all members.
type group struct {
	t     *testing.T
	names []string

	mu    sync.Mutex
	owner map[string]*member
	owned map[string]context.Context
	gains int
}

func newGroup(t *testing.T, n int) *group {
	g := &group{t: t, owner: map[string]*member{}, owned: map[string]context.Context{}}
	for i := range n {
		g.names = append(g.names, fmt.Sprintf("watch/host-%d", i))
	}
	return g
}

// member is a process that wants every name.
type member struct {
	g     *group
	store *dedupe.Redis
	stop  func() // gives everything back
}

func (g *group) join(url string, hasty bool) *member {
	g.t.Helper()
	store := openRedis(g.t, url, nil)
	if hasty {
		store.Hasten()
	}
	return g.start(store)
}

// start has a process that is a member already want every name.
func (g *group) start(store *dedupe.Redis) *member {
	m := &member{g: g, store: store}
	ctx, cancel := context.WithCancel(context.WithoutCancel(g.t.Context()))
	var working sync.WaitGroup
	for _, name := range g.names {
		working.Go(func() { m.work(ctx, name) })
	}
	m.stop = func() { cancel(); working.Wait() }
	g.t.Cleanup(m.stop)
	return m
}

// work owns one name as often as it may.
func (m *member) work(ctx context.Context, name string) {
	for ctx.Err() == nil {
		turn, leave := context.WithCancel(ctx)
		owned, release, err := m.store.Acquire(ctx, name, leave)
		if err == nil {
			m.g.gain(m, name, owned)
			select {
			case <-turn.Done():
				if ctx.Err() == nil && owned.Err() != nil {
					m.g.t.Errorf("%s was lost before it was handed over", name)
				}
			case <-owned.Done():
			}
			m.g.lose(m, name)
			release()
		}
		leave()
	}
}

//nolint:revive // owned is what is gained, not the context of the call
func (g *group) gain(m *member, name string, owned context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if before := g.owned[name]; before != nil && before.Err() == nil && owned.Err() == nil {
		g.t.Errorf("%s is owned twice", name)
	}
	g.owner[name], g.owned[name] = m, owned
	g.gains++
}

func (g *group) lose(m *member, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.owner[name] == m {
		delete(g.owner, name)
		delete(g.owned, name)
	}
}

// moves is how often a name got an owner.
func (g *group) moves() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gains
}

// shares counts what each of the members owns now.
func (g *group) shares(of ...*member) (each []int, all int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	each = make([]int, len(of))
	for name, m := range g.owner {
		if g.owned[name].Err() != nil {
			continue
		}
		all++
		for i := range of {
			if of[i] == m {
				each[i]++
			}
		}
	}
	return each, all
}

// spread waits until all names are owned, and by none more than its share.
func (g *group) spread(what string, limit time.Duration, among ...*member) time.Duration {
	g.t.Helper()
	start := time.Now()
	share := (len(g.names) + len(among) - 1) / len(among)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		each, all := g.shares(among...)
		even, sum := true, 0
		for _, n := range each {
			even, sum = even && n <= share, sum+n
		}
		took := time.Since(start)
		if even && sum == len(g.names) {
			g.t.Logf("%s: %v after %s", what, each, took.Round(10*time.Millisecond))
			return took
		}
		if took > limit {
			g.t.Fatalf("%s: not in %s: %v of %d are owned, %d in all", what, limit, each, len(g.names), all)
		}
		<-tick.C
	}
}

// cut ends all connections of a proxy and lets none through.
func (p *proxy) cut() {
	p.point(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		_ = c.Close()
	}
	p.open = nil
}

// Three members and 300 names, in real time: one is cut off, a fourth comes, the
// first is back.
func TestNamesAreSpreadOverMembers(t *testing.T) {
	t.Parallel()
	srv := redistest.Own(t)
	way := startProxy(t, srv.Port())
	g := newGroup(t, 300)
	a := g.join(srv.URL(), false)
	g.spread("one member", 20*time.Second, a)
	b, c := g.join(srv.URL(), false), g.join(way.url(), false)
	g.spread("three members", 60*time.Second, a, b, c)
	way.cut()
	g.spread("one of them cut off", 20*time.Second, a, b)
	d := g.join(srv.URL(), false)
	g.spread("another one", 60*time.Second, a, b, d)
	way.point(srv.Port())
	g.spread("the first one back", 60*time.Second, a, b, c, d)
	before := g.moves()
	<-time.After(5 * time.Second)
	if now := g.moves(); now != before {
		t.Errorf("names move although nothing changes: %d times", now-before)
	}
	a.stop()
	g.spread("one stopped", 20*time.Second, b, c, d)
}

// A name that only one member wants is owned, whatever the others want.
func TestNamesThatOthersDoNotWant(t *testing.T) {
	t.Parallel()
	srv := redistest.Own(t)
	other := openHasty(t, srv.URL(), nil)
	acquire(t, other, "watch/of-the-other")
	g := newGroup(t, 6)
	m := g.join(srv.URL(), true)
	g.spread("all of them", 20*time.Second, m)
	// Once the other wants them after all, it gets its share, although nobody has come or gone.
	g.spread("the other, late", 30*time.Second, m, g.start(other))
}

// One name and two members: who has it is left alone.
func TestOneNameStaysWhereItIs(t *testing.T) {
	t.Parallel()
	srv := redistest.Own(t)
	g := newGroup(t, 1)
	a := g.join(srv.URL(), true)
	g.spread("one member", 10*time.Second, a)
	g.join(srv.URL(), true)
	<-time.After(4 * time.Second)
	if each, _ := g.shares(a); each[0] != 1 || g.moves() != 1 {
		t.Errorf("it moved: %v, %d times", each, g.moves())
	}
}
