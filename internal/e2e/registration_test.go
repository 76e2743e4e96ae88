package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/events"
)

// register asks one process over HTTP and gives the status and the body.
func (p *proc) register(connection, purchase string) (int, string) {
	p.t.Helper()
	body, err := json.Marshal(map[string]string{"connection": connection, "purchase": purchase})
	if err != nil {
		p.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.listen()+"/v1/watches", bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(said)
}

// Any watcher takes a registration for any connection, over HTTP and over NATS. It outlives the death of the process that
// took it, and its key is kept nowhere.
func TestRegistrationReachesTheOwnerFromAnywhere(t *testing.T) {
	const n = 6
	w := newWorld(t)
	file, _ := w.hosts(n, w.outside())
	f := &fleet{w: w, program: "watcher", file: file}
	one, two := f.add(), f.add()
	f.owned("two watchers", settledIn, n, n/2, nil)
	nc, err := nats.Connect(w.nats.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()

	key := func(way string, i int) string { return fmt.Sprintf("order-%s-%d-canary", way, i) }
	for i := range n {
		host := fmt.Sprintf("host-%d", i)
		for way, p := range map[string]*proc{"one": one, "two": two} {
			if status, body := p.register(host, key(way, i)); status != http.StatusCreated || !strings.Contains(body, events.HashKey(key(way, i))) {
				t.Errorf("%s at %s: %d %s", host, way, status, body)
			}
		}
		subject, err := events.ControlSubject(host)
		if err != nil {
			t.Fatal(err)
		}
		m, err := nc.Request(subject, []byte(`{"purchase":"`+key("nats", i)+`"}`), 10*time.Second)
		if err != nil || !strings.Contains(string(m.Data), events.HashKey(key("nats", i))) {
			t.Errorf("%s over NATS: %v %s", host, err, m.Data)
		}
	}
	if _, err := nc.Request("envoy.control.watch.host-99", []byte(`{"purchase":"`+key("nats", 99)+`"}`), 10*time.Second); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("a connection that nobody watches: %v", err)
	}
	if status, body := one.register("host-99", key("one", 99)); status != http.StatusBadRequest {
		t.Errorf("an unknown connection: %d %s", status, body)
	}

	f.kill(0)
	f.owned("one killed", followed, n, n, nil)
	var ids []string
	for i := range n {
		for _, way := range []string{"one", "two", "nats"} {
			state := envoysim.Completed
			if way == "nats" {
				state = envoysim.Processing // a look shows this one, and then a list that the others have come and gone
			}
			id, err := w.sim.Put(fmt.Sprintf("user-%d", i), envoysim.Purchase{
				State: state, Key: key(way, i), Rail: envoysim.OperatedCheckout,
				CheckoutBy: envoysim.ByEnvoy, MerchantName: "Example Store", MerchantURL: "https://shop.example.test", Amount: 1900,
			})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
	}
	missing := func() []string {
		found := map[string]bool{}
		for _, e := range w.stored() {
			found[e.Event.Subject] = true
		}
		return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return found[id] })
	}
	await(t, 120*time.Second, "what was registered is found", func() bool { return len(missing()) == 0 },
		func() string { return strings.Join(missing(), "\n") }, two.out.String)
	if strings.Contains(one.out.String()+two.out.String(), "canary") {
		t.Error("a key is in the log")
	}
	w.nats.Kill()
	err = filepath.WalkDir(w.nats.Dir(), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if strings.Contains(readFile(t, path), "canary") {
			t.Errorf("a key is in %s", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
