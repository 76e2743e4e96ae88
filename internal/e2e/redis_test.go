package e2e_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/redistest"
)

// pair is a watcher of many connections and a notifier over the same stores.
type pair struct {
	*world
	ids               []string
	watcher, notifier *proc
}

// newPair starts both with Redis at an address, and waits until all is watched.
func newPair(t *testing.T, n int, redisAt func(*world) string) *pair {
	t.Helper()
	w := newWorld(t)
	at := w.outside()
	at.redis = redisAt(w)
	file, ids := w.hosts(n, at)
	p := &pair{world: w, ids: ids}
	p.watcher, p.notifier = w.start("watcher", "-c", file), w.start("notifier", "-c", w.config("notifier", at))
	p.watcher.says(`"msg":"running"`)
	p.notifier.says(`"msg":"running"`)
	await(t, 60*time.Second, "all is watched", func() bool { return w.sim.Holds() == n }, p.said)
	return p
}

func (p *pair) said() string { return p.watcher.out.String() + p.notifier.out.String() }

// change moves all purchases on.
func (p *pair) change(to envoysim.State) {
	for _, id := range p.ids {
		p.move(id, to)
	}
}

// delivered waits until the newest reading of each purchase is accepted, and sees that none came more than twice.
func (p *pair) delivered(what string) {
	p.t.Helper()
	await(p.t, 60*time.Second, what, func() bool {
		got := p.accepted()
		return !slices.ContainsFunc(p.ids, func(id string) bool {
			return !slices.Contains(got, eventID(p.world, id, len(want(p.world, id))-1))
		})
	}, p.said)
	times := map[string]int{}
	for _, id := range p.accepted() {
		if times[id]++; times[id] > 2 {
			p.t.Errorf("%s: %s was accepted %d times", what, id, times[id])
		}
	}
}

// trouble is how often the stores failed, by the programs' own count.
func (p *pair) trouble() float64 {
	sum := 0.0
	for _, q := range []*proc{p.watcher, p.notifier} {
		for _, op := range []string{"advance", "cursor", "standings", "put_standings", "watch_set", "put_watch_set", "silences"} {
			n, err := strconv.ParseFloat(gauge(q.listen(), fmt.Sprintf("herald_dedupe_failures_total{operation=%q}", op)), 64)
			if err == nil {
				sum += n
			}
		}
	}
	return sum
}

// The primary is demoted with its connections left open: both programs drop them, find the new one, and lose nothing.
func TestB30_RedisFailover(t *testing.T) {
	second := redistest.Own(t)
	var between *proxy
	p := newPair(t, 20, func(w *world) string {
		between = newProxy(t, "127.0.0.1:"+strconv.Itoa(w.redis.Port()))
		return "redis://" + between.addr()
	})
	if err := second.Client().ReplicaOf(t.Context(), "127.0.0.1", strconv.Itoa(p.redis.Port())).Err(); err != nil {
		t.Fatal(err)
	}
	await(t, 30*time.Second, "the replica has everything", func() bool {
		info, err := second.Client().Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
	if err := second.Client().ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	if err := p.redis.Client().ReplicaOf(t.Context(), "127.0.0.1", strconv.Itoa(second.Port())).Err(); err != nil {
		t.Fatal(err)
	}
	writes := func() string {
		info, err := second.Client().Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(info) {
			if strings.HasPrefix(line, "cmdstat_evalsha:") {
				return line
			}
		}
		return ""
	}
	none := writes()
	between.point("127.0.0.1:" + strconv.Itoa(second.Port()))
	p.change(envoysim.Processing)
	p.delivered("the changes of the failover")
	await(t, 30*time.Second, "the new primary is written to", func() bool { return writes() != none }, p.said)
	p.change(envoysim.Verifying)
	p.delivered("the changes after it")
}

// A store that is out of reach, full or slow is never read as "already said".
func TestB31_RedisOutOfReach(t *testing.T) {
	p := newPair(t, 10, func(w *world) string { return w.redis.URL() })
	for _, c := range []struct {
		name       string
		begin, end func()
	}{
		{"stopped", p.redis.Stop, p.redis.Restart},
		{"full", func() { p.limit("1") }, func() { p.limit("0") }},
		{"slow", p.redis.Pause, p.redis.Resume},
	} {
		before, lines := p.trouble(), strings.Count(p.said(), "\n")
		start := time.Now()
		c.begin()
		p.change(envoysim.Processing)
		await(t, 60*time.Second, c.name+": the trouble is counted", func() bool { return p.trouble() > before }, p.said)
		c.end()
		p.delivered(c.name)
		p.change(envoysim.Verifying)
		p.delivered(c.name + ", afterwards")
		if n := float64(strings.Count(p.said(), "\n")-lines) / time.Since(start).Seconds(); n > 20 {
			t.Errorf("%s: %.0f lines of log a second", c.name, n)
		}
	}
}

// limit sets how much Redis may hold; it refuses writes beyond.
func (p *pair) limit(bytes string) {
	p.t.Helper()
	if err := p.redis.Client().ConfigSet(p.t.Context(), "maxmemory", bytes).Err(); err != nil {
		p.t.Fatal(err)
	}
}
