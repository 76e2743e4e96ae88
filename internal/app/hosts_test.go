package app

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/secret"
)

// tokenFiles writes tokens, each in a file of its own name.
func tokenFiles(t *testing.T) (source func(name string) secret.Source, write func(name, text string)) {
	t.Helper()
	dir := t.TempDir()
	return func(name string) secret.Source { return secret.File(filepath.Join(dir, name)) },
		func(name, text string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
}

// builder builds connections from before to before, as reloads do.
func builder(t *testing.T) func(...config.Connection) []host {
	t.Helper()
	w := &wiring{client: envoy.NewHTTPClient(envoy.HTTPOptions{})}
	t.Cleanup(w.client.CloseIdleConnections)
	return func(list ...config.Connection) []host {
		t.Helper()
		hosts, err := buildHosts(t.Context(), &config.Config{Connections: list}, "test", w)
		if err != nil {
			t.Fatal(err)
		}
		w.hosts = hosts
		return hosts
	}
}

// One budget for each token, wherever it is read from, and whatever has been rotated since the process started.
func TestBudgetIsOfTheToken(t *testing.T) {
	source, write := tokenFiles(t)
	t.Setenv("HERALD_TEST_TOKEN", "token-of-asha-0001")
	write("one", "token-of-asha-0001")
	write("other", "token-of-ravi-0001")
	of := func(name string, s secret.Source) config.Connection {
		return config.Connection{Name: name, BaseURL: "https://api.example.test", Token: s}
	}
	one, env, other := of("one", source("one")), of("env", secret.Env("HERALD_TEST_TOKEN")), of("other", source("other"))
	build := builder(t)
	h := build(one, env, other, of("missing", source("missing")), of("missing-too", source("missing-too")))
	keys := map[string]int{}
	for _, x := range h {
		keys[x.conn.BudgetKey]++
		if strings.Contains(x.conn.BudgetKey, "asha") || x.conn.BudgetKey == "" {
			t.Errorf("%s has the budget %q", x.cfg.Name, x.conn.BudgetKey)
		}
	}
	if h[0].conn.BudgetKey != h[1].conn.BudgetKey || len(keys) != 4 {
		t.Errorf("budgets: %v", keys)
	}

	write("other", "token-of-ravi-0002")
	write("third", "token-of-ravi-0002")
	again := build(one, env, other, of("third", source("third")))
	if again[2].conn.Reader != h[2].conn.Reader {
		t.Error("a rotated token cuts its connection at a reload")
	}
	if again[3].conn.BudgetKey != again[2].conn.BudgetKey {
		t.Error("two connections with one token have two budgets, because it was rotated")
	}
	if again[3].conn.BudgetKey == again[0].conn.BudgetKey {
		t.Error("two tokens share a budget")
	}
}

// A reload leaves alone what has not changed, and begins anew what has.
func TestReloadKeepsUnchangedConnections(t *testing.T) {
	source, write := tokenFiles(t)
	write("one", "token-of-asha-0001")
	write("two", "token-of-asha-0002")
	same := config.Connection{
		Name: "host", BaseURL: "https://api.example.test", Token: source("one"), Proof: &config.Proof{Command: []string{"prove"}},
	}
	for name, edit := range map[string]func(*config.Connection){
		"nothing":       nil,
		"place":         func(c *config.Connection) { c.Place.Line = 99 },
		"name":          func(c *config.Connection) { c.Name = "host-b" },
		"base_url":      func(c *config.Connection) { c.BaseURL = "https://other.example.test" },
		"token":         func(c *config.Connection) { c.Token = source("two") },
		"proof":         func(c *config.Connection) { c.Proof = &config.Proof{Command: []string{"prove", "again"}} },
		"proof, socket": func(c *config.Connection) { c.Proof = &config.Proof{Socket: "prove.sock"} },
		"proof, none":   func(c *config.Connection) { c.Proof = nil },
	} {
		build := builder(t)
		before := build(same)[0].conn.Reader
		c := same
		if edit != nil {
			edit(&c)
		}
		kept := build(c)[0].conn.Reader == before
		if want := edit == nil || name == "place"; kept != want {
			t.Errorf("%s changed: kept %v, want %v", name, kept, want)
		}
	}
}

// A token that a command gives is kept until it is refused; then the command is asked again.
func TestCommandIsAskedAgainWhenItsTokenIsRefused(t *testing.T) {
	dir := t.TempDir()
	count := filepath.Join(dir, "count")
	src := secret.Command("/bin/sh", "-c", `echo x >> `+count+`; printf 'token-number-%04d' "$(wc -l < `+count+`)"`)
	c := &credential{src: src}
	var first secret.Value
	for range 3 {
		v, err := c.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if first.IsZero() {
			first = v
		}
		if !v.Equal(first) {
			t.Error("the command is asked for each call")
		}
	}
	if !c.Changed(t.Context()) {
		t.Error("the command gives another token, and nobody asked it")
	}
	v, err := c.Token(t.Context())
	if err != nil || v.Equal(first) {
		t.Errorf("the refused token is used again: %v", err)
	}
}

// A maker of proofs that takes the question and never answers is given up, whatever the call might wait.
func TestProofThatNeverComesIsGivenUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prove.sock")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // after the parallel ones
	for name, p := range map[string]*config.Proof{
		"socket":  {Socket: config.Path(path)}, // it is never accepted
		"command": {Command: []string{"/bin/sh", "-c", "exec sleep 600"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := make(chan error, 1)
			go func() {
				_, err := prover(p)(t.Context(), "POST", "http://127.0.0.1/", [32]byte{})
				failed <- err
			}()
			select {
			case err := <-failed:
				if err == nil {
					t.Error("a proof came from nowhere")
				}
			case <-time.After(60 * time.Second):
				t.Error("it is waited for")
			}
		})
	}
}
