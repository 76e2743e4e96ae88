package watch

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/events"
)

func TestRegistrationByKeyBeforeThePurchaseExists(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		b.pass(30 * time.Second)
		key := operated(1, "").IdempotencyKey
		if err := b.w.Register(t.Context(), "host-a", key); err != nil {
			t.Fatal(err)
		}
		set, _ := json.Marshal(b.store.set("host-a"))
		if strings.Contains(string(set), key) || !strings.Contains(string(set), events.HashKey(key)) {
			t.Errorf("stored: %s", set)
		}
		b.stop()
		b.restart(f) // only the hash is left
		b.pass(10 * time.Minute)
		for _, a := range f.made(envoy.ToolStatus) {
			if a.req.Purchase != key {
				t.Errorf("asked for %q", a.req.Purchase)
			}
		}
		f.put(operated(1, events.StateProcessing))
		b.pass(time.Minute)
		b.wantStates(pid(1), "processing:revision")
		refs := b.store.set("host-a").Refs
		if len(refs) != 1 || refs[0].PurchaseID != pid(1) || !refs[0].Registered || !refs[0].Seen {
			t.Errorf("stored: %+v", refs)
		}
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "completed", "debited" })
		b.pass(time.Minute)
		b.stop()
		if refs := b.store.set("host-a").Refs; len(refs) != 0 {
			t.Errorf("still stored: %+v", refs)
		}
	})
}

// A purchase that has come and gone between two looks is found by its key while the key is known.
func TestRegistrationByKeyOfAPurchaseThatIsNotActive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		p := operated(1, events.StateCompleted)
		p.Money.Status = "debited"
		f.put(p)
		f.with(func() { f.list = nil })
		if err := b.w.Register(t.Context(), "host-a", p.IdempotencyKey); err != nil {
			t.Fatal(err)
		}
		b.pass(30 * time.Second)
		b.wantStates(pid(1), "completed:revision")
	})
}

// The one who took a registration dies before first contact, and what it was for comes and goes meanwhile. The next owner
// has only the hash, and finds it among what had ended.
func TestRegistrationByKeyOutlivesADeathBeforeFirstContact(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		f.unknown = true
		b := start(t, f)
		b.pass(10 * time.Second)
		wanted, other := operated(1, events.StateCompleted), operated(2, events.StateCompleted)
		if err := b.w.Register(t.Context(), "host-a", wanted.IdempotencyKey); err != nil {
			t.Fatal(err)
		}
		b.stop()
		if b.store.set("host-a").Baselined {
			t.Fatal("first contact was over before")
		}
		for _, p := range []envoy.Purchase{wanted, other} {
			p.Money.Status = "debited"
			f.put(p)
		}
		f.with(func() { f.unknown, f.active = false, "" })
		b.restart(f)
		b.pass(time.Minute)
		b.wantStates(pid(1), "completed:revision")
		b.wantStates(pid(2), "")
		b.pass(25 * time.Hour)
		b.stop()
		if n := len(b.store.noticed(events.NoticeNotFound)); n != 0 {
			t.Errorf("%d notices that it was not found", n)
		}
	})
}

func TestRegistrationByKeyEndsAfterADay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		if err := b.w.Register(t.Context(), "host-a", "key-of-nobody-at-all"); err != nil {
			t.Fatal(err)
		}
		b.pass(23 * time.Hour)
		if n := len(b.store.noticed(events.NoticeNotFound)); n != 0 {
			t.Error("given up too soon")
		}
		f.forgetCalls()
		b.pass(2 * time.Hour)
		if n := len(b.store.noticed(events.NoticeNotFound)); n != 1 {
			t.Errorf("%d notices", n)
		}
		if refs := b.store.set("host-a").Refs; len(refs) != 0 {
			t.Errorf("still watched: %+v", refs)
		}
		for _, e := range b.store.stored {
			raw, _ := events.Encode(e)
			if strings.Contains(string(raw), "key-of-nobody") {
				t.Errorf("the key came out: %s", raw)
			}
		}
	})
}

// Where the host registers its purchases and none has been open for an hour, looks are seldom.
func TestLooksAreSeldomWhereHostsRegister(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		if err := b.w.Register(t.Context(), "host-a", pid(1)); err != nil {
			t.Fatal(err)
		}
		b.pass(time.Minute)
		f.edit(pid(1), func(p *envoy.Purchase) { p.State, p.Money.Status = "completed", "debited" })
		b.pass(2 * time.Hour)
		f.forgetCalls()
		b.pass(2 * time.Hour)
		if n := len(f.made(envoy.ToolAccount)); n < 23 || n > 26 {
			t.Errorf("%d looks in two hours, want one every five minutes", n)
		}
	})
}

func TestHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		h := b.w.Handler()
		call := func(method, target, body string) (int, string) {
			r := httptest.NewRecorder()
			h.ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body)))
			return r.Code, r.Body.String()
		}
		const key = "canary-key-of-the-host"
		for _, c := range []struct {
			name, method, target, body string
			want                       int
			says                       string
		}{
			{"by key", "POST", "/v1/watches", `{"connection":"host-a","purchase":"` + key + `"}`, 201, events.HashKey(key)},
			{"by id", "POST", "/v1/watches", `{"purchase":"` + pid(1) + `","connection":"host-a"}`, 201, pid(1)},
			{"again", "POST", "/v1/watches", `{"purchase":"` + pid(1) + `","connection":"host-a"}`, 201, pid(1)},
			{"no body", "POST", "/v1/watches", ``, 400, "JSON object"},
			{"no object", "POST", "/v1/watches", `["x"]`, 400, "JSON object"},
			{"half an object", "POST", "/v1/watches", `{"connection":"host-a"`, 400, "JSON object"},
			{"unknown field", "POST", "/v1/watches", `{"connection":"host-a","purchases":"` + key + `"}`, 400, `"field":"purchases"`},
			{"odd case", "POST", "/v1/watches", `{"Connection":"host-a","purchase":"` + key + `"}`, 400, `"field":"Connection"`},
			{"a hostile field", "POST", "/v1/watches", `{"canary-\u0000":"host-a"}`, 400, `"field":"unnamed"`},
			{"twice", "POST", "/v1/watches", `{"connection":"host-a","connection":"host-b","purchase":"` + key + `"}`, 400, "twice"},
			{"wrong type", "POST", "/v1/watches", `{"connection":"host-a","purchase":1000}`, 400, `"field":"purchase"`},
			{"nested", "POST", "/v1/watches", `{"connection":"host-a","purchase":{}}`, 400, `"field":"purchase"`},
			{"missing purchase", "POST", "/v1/watches", `{"connection":"host-a"}`, 400, `"field":"purchase"`},
			{"missing connection", "POST", "/v1/watches", `{"purchase":"` + key + `"}`, 400, `"field":"connection"`},
			{"short reference, as in 007012", "POST", "/v1/watches", `{"connection":"host-a","purchase":"007012"}`, 400, "16 to 64"},
			{"upper-case id", "POST", "/v1/watches", `{"connection":"host-a","purchase":"` + strings.ToUpper(pid(10)) + `"}`, 201, ""},
			{"bad id", "POST", "/v1/watches", `{"connection":"host-a","purchase":"pur_canary-not-hexadecimal"}`, 400, `"field":"purchase"`},
			{"trailing bytes", "POST", "/v1/watches", `{"connection":"host-a","purchase":"` + key + `"} {}`, 400, "follows"},
			{"too long", "POST", "/v1/watches", `{"connection":"` + strings.Repeat("a", 5000) + `"}`, 400, "4096"},
			{"unknown connection", "POST", "/v1/watches", `{"connection":"host-z","purchase":"` + key + `"}`, 400, "unknown_connection"},
			{"list", "GET", "/v1/watches?connection=host-a", "", 200, pid(1)},
			{"list all", "GET", "/v1/watches", "", 200, events.HashKey(key)},
			{"list, unknown connection", "GET", "/v1/watches?connection=host-z", "", 400, "unknown_connection"},
			{"list, bad name", "GET", "/v1/watches?connection=a.b", "", 400, `"field":"connection"`},
			{"list, unknown parameter", "GET", "/v1/watches?con=a", "", 400, `"field":"con"`},
			{"end by key", "DELETE", "/v1/watches", `{"connection":"host-a","purchase":"` + key + `"}`, 204, ""},
			{"end again", "DELETE", "/v1/watches", `{"connection":"host-a","purchase":"` + key + `"}`, 404, "not_watched"},
			{"end, bad input", "DELETE", "/v1/watches", `{}`, 400, `"field":"connection"`},
			{"another method", "PUT", "/v1/watches", `{}`, 405, ""},
		} {
			status, body := call(c.method, c.target, c.body)
			if status != c.want || !strings.Contains(body, c.says) {
				t.Errorf("%s: %d %s, want %d with %s", c.name, status, body, c.want, c.says)
			}
			if strings.Contains(body, "canary") {
				t.Errorf("%s: what was sent came back: %s", c.name, body)
			}
		}
		b.store.with(func() { b.store.noState = true })
		if status, body := call("POST", "/v1/watches", `{"connection":"host-a","purchase":"`+pid(5)+`"}`); status != http.StatusServiceUnavailable || !strings.Contains(body, "not_stored") {
			t.Errorf("store away: %d %s", status, body)
		}
		b.stop()
		if status, body := call("GET", "/v1/watches?connection=host-a", ""); status != http.StatusBadRequest {
			t.Errorf("after the end: %d %s", status, body)
		}
	})
}

func TestUpdateChangesConnectionsByName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, g, h := newFar(), newFar(), newFar()
		b := start(t, f)
		defer b.stop()
		b.pass(30 * time.Second)
		f.put(operated(1, events.StateProcessing))
		b.pass(2 * time.Minute)
		holds := len(f.made(envoy.ToolStatus))
		b.w.Update([]Connection{{Name: "host-a", Reader: f}, {Name: "host-b", Reader: g}})
		b.pass(10 * time.Second)
		if s := b.w.Status(); len(s) != 2 || s[0].Holds != 1 || !s[1].Owner {
			t.Errorf("status: %+v", s)
		}
		if n := len(f.made(envoy.ToolStatus)); n > holds+1 {
			t.Errorf("the connection that stayed was disturbed: %d calls", n-holds)
		}
		f.forgetCalls()
		b.w.Update([]Connection{{Name: "host-a", Reader: h}}) // another reader: started anew
		b.pass(time.Minute)
		g.forgetCalls()
		b.pass(5 * time.Minute)
		if len(f.made("")) > 1 || len(g.made("")) > 0 || len(h.made("")) == 0 {
			t.Errorf("calls: old %d, removed %d, new %d", len(f.made("")), len(g.made("")), len(h.made("")))
		}
		b.w.Update([]Connection{{Name: "a.b", Reader: h}}) // refused as a whole
		b.pass(time.Minute)
		if s := b.w.Status(); len(s) != 1 || s[0].Name != "host-a" {
			t.Errorf("status: %+v", s)
		}
	})
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	s := newStore()
	good := Options{Publisher: s, Cursors: s, Sets: s, Leases: newLeases()}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*Options){
		"publisher": func(o *Options) { o.Publisher = nil }, "cursors": func(o *Options) { o.Cursors = nil },
		"sets": func(o *Options) { o.Sets = nil }, "leases": func(o *Options) { o.Leases = nil },
		"name":   func(o *Options) { o.Connections = []Connection{{Name: "a.b", Reader: newFar()}} },
		"reader": func(o *Options) { o.Connections = []Connection{{Name: "a"}} },
		"twice": func(o *Options) {
			o.Connections = []Connection{{Name: "a", Reader: newFar()}, {Name: "a", Reader: newFar()}}
		},
	} {
		o := good
		edit(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// pigeon is a desk between processes.
type pigeon struct {
	mu   sync.Mutex
	open map[string]*Watcher
	w    *Watcher
}

func (p *pigeon) Open(connection string) (func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[connection] = p.w
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, connection)
	}, nil
}

func (p *pigeon) Ask(ctx context.Context, connection string, request []byte) ([]byte, error) {
	p.mu.Lock()
	w := p.open[connection]
	p.mu.Unlock()
	if w == nil {
		return nil, ErrNotOwner
	}
	return w.Answer(ctx, connection, request), nil
}

// A process that does not watch a connection has its owner answer.
func TestRegistrationReachesTheOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFar()
		post := &pigeon{open: map[string]*Watcher{}}
		b := start(t, f, func(o *Options) { o.Desk = post })
		defer b.stop()
		post.mu.Lock()
		post.w = b.w
		post.mu.Unlock()
		b.pass(30 * time.Second)
		other, err := New(Options{
			Connections: []Connection{{Name: "host-a", Reader: f}, {Name: "host-b", Reader: f}},
			Publisher:   b.store, Cursors: b.store, Sets: b.store, Leases: &nobody{}, Desk: post,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() { _ = other.Run(ctx) })
		b.pass(time.Second)
		call := func(method, target, body string) (int, string) {
			r := httptest.NewRecorder()
			other.Handler().ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body)))
			return r.Code, r.Body.String()
		}
		for _, c := range []struct {
			name, method, target, body string
			want                       int
			says                       string
		}{
			{"register", "POST", "/v1/watches", `{"connection":"host-a","purchase":"` + pid(1) + `"}`, 201, pid(1)},
			{"list", "GET", "/v1/watches?connection=host-a", "", 200, pid(1)},
			{"end", "DELETE", "/v1/watches", `{"connection":"host-a","purchase":"` + pid(1) + `"}`, 204, ""},
			{"end again", "DELETE", "/v1/watches", `{"connection":"host-a","purchase":"` + pid(1) + `"}`, 404, "not_watched"},
			{"nobody owns it", "POST", "/v1/watches", `{"connection":"host-b","purchase":"` + pid(1) + `"}`, 409, "ask again"},
			{"nobody knows it", "POST", "/v1/watches", `{"connection":"host-c","purchase":"` + pid(1) + `"}`, 400, "unknown_connection"},
		} {
			status, body := call(c.method, c.target, c.body)
			if status != c.want || !strings.Contains(body, c.says) {
				t.Errorf("%s: %d %s, want %d with %s", c.name, status, body, c.want, c.says)
			}
		}
	})
}

// nobody gives no lease.
type nobody struct{}

func (*nobody) Acquire(ctx context.Context, _ string, _ func()) (context.Context, func(), error) {
	<-ctx.Done()
	return nil, nil, ctx.Err()
}

func TestAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := start(t, newFar())
		defer b.stop()
		b.pass(30 * time.Second)
		const key = "canary-key-of-the-host"
		for _, c := range []struct{ name, body, says string }{
			{"by key", `{"purchase":"` + key + `"}`, events.HashKey(key)},
			{"by id, said in full", `{"op":"register","purchase":"` + pid(1) + `"}`, `"registered":true`},
			{"list", `{"op":"list"}`, pid(1)},
			{"list with a purchase", `{"op":"list","purchase":"` + pid(1) + `"}`, `"field":"purchase"`},
			{"end", `{"op":"unregister","purchase":"` + pid(1) + `"}`, `{"connection":"host-a"}`},
			{"end again", `{"op":"unregister","purchase":"` + pid(1) + `"}`, "not_watched"},
			{"another op", `{"op":"cancel","purchase":"` + pid(1) + `"}`, `"field":"op"`},
			{"a connection in the body", `{"connection":"host-a","purchase":"` + pid(1) + `"}`, `"field":"connection"`},
			{"no JSON", `purchase=1`, "JSON object"},
			{"nothing", ``, "JSON object"},
			{"no reference", `{"purchase":"canary"}`, "16 to 64"},
			{"too long", `{"purchase":"` + strings.Repeat("a", 5000) + `"}`, "4096"},
		} {
			body := string(b.w.Answer(t.Context(), "host-a", []byte(c.body)))
			if !strings.Contains(body, c.says) || strings.Contains(body, "canary") {
				t.Errorf("%s: %s, want %s", c.name, body, c.says)
			}
		}
	})
}

// As many as may be registered are one message to the store and one answer over NATS, whose servers take a megabyte.
func TestRegistrationsFitAMessage(t *testing.T) {
	var set events.WatchSet
	var list []Watch
	for n := range registrationLimit {
		hash, since := events.HashKey(pid(n)), time.Now()
		set.Refs = append(set.Refs, events.WatchRef{
			PurchaseID: pid(n), KeyHash: hash, Registered: true, Seen: true, Since: since, OnlyLook: true,
		})
		list = append(list, Watch{
			Connection: strings.Repeat("c", 64), PurchaseID: pid(n), KeyHash: hash, Registered: true, Seen: true, Since: since,
		})
	}
	stored, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	for what, n := range map[string]int{"the set": len(stored), "the list": len(reply{Watches: &list}.encode())} {
		if n > 1<<20 {
			t.Errorf("%s has %d bytes", what, n)
		}
	}
}
