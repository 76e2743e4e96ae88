package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/natstest"
	"github.com/heraldbridge/herald/internal/redistest"
	"github.com/heraldbridge/herald/internal/telemetry"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Each check is a whole Herald for some seconds.
	if err := flag.Set("rapid.checks", "2"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestDemoEndsWithOneLineOfJSON(t *testing.T) {
	var out bytes.Buffer
	err := Run(t.Context(), Options{For: 12 * time.Second, JSON: true, Out: &out, Seed: 3})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"purchases", "revisions", "published", "duplicates", "deliveries", "slowest_ms", "canaries"} {
		if _, ok := got[key]; !ok {
			t.Errorf("no %s in %s", key, out.String())
		}
	}
	sent, _ := got["deliveries"].(map[string]any)
	if got["canaries"] != 0.0 || got["published"].(float64) < 1 || sent["orders"].(float64) < 1 {
		t.Errorf("the summary is %s", out.String())
	}
}

// The operator page is there while the demo runs, and whoever watches is shown it.
func TestDemoOpensTheOperatorPage(t *testing.T) {
	shown := make(chan string, 1)
	var out bytes.Buffer
	err := Run(t.Context(), Options{For: 9 * time.Second, Out: &out, Seed: 3, Page: func(ctx context.Context, url string) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		page, err := io.ReadAll(resp.Body)
		shown <- string(page)
		return errors.Join(err, errors.New("no browser is here"))
	}})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if page := <-shown; !strings.Contains(page, "<title>Herald</title>") {
		t.Errorf("the page is %q", page)
	}
	for _, text := range []string{"the operator page: http://127.0.0.1:", "no browser is here"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("no %q in\n%s", text, out.String())
		}
	}
}

// The whole product over a real NATS process and a real Redis, against random
// lives of purchases with all unfriendly ways on: no promise breaks, and no
// secret is in any byte that reached a store, a log, a metric or a receiver.
func TestRandomLivesKeepEveryPromise(t *testing.T) {
	nats, redis := natstest.Process(t), redistest.Own(t)
	stores := fmt.Sprintf("nats: { url: %q }\nredis: { url: %q }", nats.URL(), redis.URL())
	rapid.Check(t, func(r *rapid.T) {
		nats.Kill()
		nats.Wipe()
		nats.Start()
		if err := redis.Client().FlushAll(t.Context()).Err(); err != nil {
			r.Fatal(err)
		}
		seed := rapid.Uint64Min(1).Draw(r, "seed")
		dir := t.TempDir()
		st, err := newStage(t.Context(), dir, seed, stores)
		if err != nil {
			r.Fatal(err)
		}
		defer st.close()
		var out bytes.Buffer
		s, err := play(t.Context(), Options{For: 20 * time.Second, Out: &out}, st, dir)
		if err != nil {
			r.Fatalf("%v\n%s", err, out.String())
		}
		if kept := size(t, nats.Dir()); kept < 10_000 {
			r.Fatalf("NATS keeps only %d bytes under %s, so nothing was looked at", kept, nats.Dir())
		}
		found, where := canaries(st, evidence{registry: telemetry.NewRegistry(), data: nats.Dir(), stores: dump(t, redis)})
		if found > 0 {
			s.Broken = append(s.Broken, fmt.Sprintf("%d canaries in %s", found, where[0]))
		}
		if len(s.Broken) > 0 {
			r.Fatalf("broken: %s\n%s", strings.Join(s.Broken, "; "), out.String())
		}
		r.Logf("%d purchases, %d events, %d at the webhook", s.Purchases, s.Published, s.Deliveries["orders"])
	})
}

// size adds up the files of a folder.
func size(t *testing.T, dir string) int64 {
	t.Helper()
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// dump gives every key and value of a Redis.
func dump(t *testing.T, s *redistest.Server) []byte {
	t.Helper()
	c, ctx := s.Client(), t.Context()
	keys, err := c.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) == 0 {
		t.Fatal("nothing was kept in Redis, so nothing was looked at")
	}
	var b bytes.Buffer
	for _, k := range keys {
		v, err := c.Get(ctx, k).Result()
		if err != nil {
			if all, err := c.HGetAll(ctx, k).Result(); err == nil {
				v = fmt.Sprint(all)
			}
		}
		fmt.Fprintln(&b, k, v)
	}
	return b.Bytes()
}

// Each promise is broken on purpose, and the verdict must say so.
func TestVerdictBites(t *testing.T) {
	cases := map[string]struct {
		breaks func(*testing.T, *stage, *summary, *evidence)
		says   string
	}{
		"canary in the log": {func(_ *testing.T, st *stage, _ *summary, e *evidence) {
			e.logs = []byte("token " + st.sim.Canaries()[0])
		}, "no secret comes out"},
		"canary in an event": {func(_ *testing.T, st *stage, _ *summary, e *evidence) {
			e.documents = [][]byte{[]byte(`{"x":"` + st.sim.Canaries()[0] + `"}`)}
		}, "no secret comes out"},
		"canary at a receiver": {func(t *testing.T, st *stage, _ *summary, _ *evidence) {
			post(t, st.slack.APIURL()+"chat.postMessage", st.sim.Canaries()[0])
		}, "no secret comes out"},
		"unsigned webhook": {func(t *testing.T, st *stage, _ *summary, _ *evidence) {
			post(t, st.hook.URL("/hooks/orders"), "{}")
		}, "webhooks are signed"},
		"webhook twice": {func(t *testing.T, st *stage, _ *summary, _ *evidence) {
			post(t, st.hook.URL("/hooks/orders"), "{}")
			post(t, st.hook.URL("/hooks/orders"), "{}")
		}, "nothing is said twice"},
		"unpublished state": {func(_ *testing.T, _ *stage, s *summary, _ *evidence) { s.undone = []string{"pur_1"} }, "nothing is lost"},
		"undelivered event": {func(_ *testing.T, _ *stage, s *summary, _ *evidence) { s.late = []string{"pur_1-0-0-0"} }, "reaches its sink"},
		"read while ready":  {readWhileReady, "never acts"},
		"read into ready":   {readIntoReady, "never acts"},
		"published twice":   {publishedTwice, "published twice"},
		"a gap":             {brokenChain, "nothing is lost"},
		"false word":        {falseWord, "no more than it knows"},
		"nothing happened":  {func(_ *testing.T, _ *stage, s *summary, _ *evidence) { s.Purchases, s.Published = 1, 0 }, "something happens"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			st, err := newStage(t.Context(), dir, 5, "")
			if err != nil {
				t.Fatal(err)
			}
			defer st.close()
			s := &summary{Published: 1}
			e := evidence{registry: telemetry.NewRegistry(), data: dir + "/data"}
			s.judge(st, e)
			if len(s.Broken) > 0 {
				t.Fatalf("broken without cause: %v", s.Broken)
			}
			c.breaks(t, st, s, &e)
			s.judge(st, e)
			if !strings.Contains(strings.Join(s.Broken, "\n"), c.says) {
				t.Errorf("the verdict is %q, want %q in it", s.Broken, c.says)
			}
		})
	}
}

func post(t *testing.T, url, body string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

func readWhileReady(t *testing.T, st *stage, _ *summary, _ *evidence) {
	id, err := st.sim.Put("user-1", envoysim.Purchase{
		State: envoysim.Ready, Rail: envoysim.OTUCard, CheckoutBy: envoysim.ByAgent,
		MerchantName: "Example Store", MerchantURL: "https://shop.example.test", Amount: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	readStatus(t, st, id)
}

// readStatus makes the call that Herald must not make.
func readStatus(t *testing.T, st *stage, id string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+st.address+"/tools/get_purchase_status",
		strings.NewReader(`{"purchase":"`+id+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+st.tokens[0])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

func falseWord(t *testing.T, st *stage, s *summary, _ *evidence) {
	id, err := st.sim.Put("user-1", envoysim.Purchase{
		State: envoysim.Failed, Rail: envoysim.OTUCard, CheckoutBy: envoysim.ByAgent,
		MerchantName: "Example Store", MerchantURL: "https://shop.example.test", Amount: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	e := events.Event{ID: id + "-0-0-0", Subject: id, Type: events.TypeChanged, Purchase: &events.Purchase{
		Situation: events.SituationStopped, Money: events.MoneyNotCharged, Terminal: true,
	}}
	st.sim.SetLedger(id, envoysim.LedgerNone)
	if told := lie(st.sim, e); told != "" {
		t.Errorf("a true word counts as a lie: %s", told)
	}
	st.sim.SetLedger(id, envoysim.LedgerSetAside)
	s.lies = append(s.lies, lie(st.sim, e))
}

func publishedTwice(_ *testing.T, _ *stage, s *summary, _ *evidence) {
	e := events.Event{ID: "pur_1-0-0-0", Subject: "pur_1", Type: events.TypeChanged, Purchase: &events.Purchase{}}
	s.events = []events.Event{e, e}
}

func brokenChain(_ *testing.T, _ *stage, s *summary, _ *evidence) {
	s.events = []events.Event{
		{ID: "pur_1-0-0-0", Subject: "pur_1", Type: events.TypeChanged, Purchase: &events.Purchase{}},
		{ID: "pur_1-0-2-0", Subject: "pur_1", Type: events.TypeChanged, Purchase: &events.Purchase{Previous: &events.Previous{ID: "pur_1-0-1-0"}}},
	}
}

// readIntoReady reads, without a hold, a purchase that becomes ready meanwhile.
func readIntoReady(t *testing.T, st *stage, _ *summary, _ *evidence) {
	id, err := st.sim.Put("user-1", envoysim.Purchase{
		State: envoysim.Processing, Rail: envoysim.OTUCard, CheckoutBy: envoysim.ByAgent,
		MerchantName: "Example Store", MerchantURL: "https://shop.example.test", Amount: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	readStatus(t, st, id)
	if err := st.sim.Transition(id, func(p *envoysim.Purchase) { p.State = envoysim.Ready }); err != nil {
		t.Fatal(err)
	}
	readStatus(t, st, id)
}
