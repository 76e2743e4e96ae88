package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/console/consoletest"
	"github.com/heraldbridge/herald/internal/events"
)

// run runs a command line and gives its exit code and what it printed.
func run(args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	root := command()
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code = app.Execute(root, args, &stderr)
	return code, stdout.String(), stderr.String()
}

// world serves sample events with letters, records and sinks.
func world(t *testing.T) (*consoletest.World, string) {
	t.Helper()
	w := consoletest.New()
	e := events.Samples()[3]
	raw, err := events.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	w.Letters = []events.DeadLetter{{Sink: "orders", EventID: e.ID, Reason: "refused", Detail: "status (400) \x1b[31mred", Attempts: 3, Buried: time.Now(), Event: raw}}
	w.Outcomes = []events.Delivery{
		{Sink: "orders", EventID: e.ID, PurchaseID: e.Subject, Outcome: "buried", Reason: "refused", Attempt: 3, At: time.Now(), Millis: 12},
		{Sink: "ops", EventID: e.ID, PurchaseID: e.Subject, Outcome: "sent", Attempt: 1, At: time.Now(), Millis: 7},
	}
	w.Subs = []console.Subscription{{Name: "all", Match: "true", Sinks: []string{"orders"}}}
	w.SinkList = []console.Sink{{Name: "orders", Kind: "webhook", State: "down", Failure: "dial refused", Configured: true, NextProbe: time.Now().Add(time.Minute)}}
	w.ConnList = []console.Connection{{Name: "host-a", Owner: "herald on a", Parked: "token", ParkedSince: time.Now(), Calls: 3, Share: 40}}
	w.Hoard = []console.Record{{Store: "ENVOY_DEAD", Place: "envoy.dead.x.y", Text: "nothing"}}
	s := httptest.NewServer(console.Handler(w.Options()))
	t.Cleanup(s.Close)
	return w, s.URL
}

func TestCommandsShowAndDo(t *testing.T) {
	_, url := world(t)
	e := events.Samples()[3]
	for _, tt := range []struct {
		args  string
		code  int
		holds []string // of the output
	}{
		{"purchases list", 0, []string{"PURCHASE", "needs_support", "Example Store", e.Subject}},
		{"purchases list --situation confirming", 0, []string{e.Subject}},
		{"purchases list --unsettled --limit 1", 0, []string{"needs_support"}},
		{"purchases list --search nothing", 0, []string{"no such purchase"}},
		{"purchases list --situation asleep", 2, nil},
		{"purchases show " + e.Subject, 0, []string{"confirming", "orders", "buried", "ops", "sent"}},
		{"purchases show pur_x", 2, nil},
		{"purchases show", 2, nil},
		{"deliveries", 0, []string{"orders", "buried", "12 ms"}},
		{"deliveries --failed --sink ops", 0, []string{"no such delivery"}},
		{"deliveries --since soon", 2, nil},
		{"dead list", 0, []string{e.ID, "orders", "status (400) ·[31mred"}},
		{"dead show " + e.ID, 0, []string{"refused after 3 tries", "specversion"}},
		{"dead show x.y", 2, nil},
		{"dead replay --all --dry-run", 0, []string{"would be sent", "1 letters, 0 taken"}},
		{"dead replay", 2, nil},
		{"dead drop " + e.ID, 2, nil},
		{"silence add --match unsettled --for 2h --why moving", 0, []string{"sil-", "until"}},
		{"silence add --match unsettled --for 2h", 2, nil},
		{"silence add --match nope --for 2h --why x", 2, nil},
		{"silence list", 0, []string{"moving", "in 1h5"}},
		{"silence remove sil-none", 2, nil},
		{"sinks list", 0, []string{"orders", "down", "dial refused", "in 5"}},
		{"sinks test orders", 0, []string{"done"}},
		{"connections", 0, []string{"host-a", "parked (token)", "3 of 40"}},
		{"explain " + e.Subject, 0, []string{"buried", "rests as a dead letter", "all"}},
		{"leakcheck", 0, []string{"ENVOY_DEAD: 1 records", "nothing found"}},
		{"dead replay " + e.ID, 0, []string{"1 taken"}},
		{"dead list", 0, []string{"no dead letter rests"}},
	} {
		t.Run(tt.args, func(t *testing.T) {
			code, out, errs := run(append(strings.Fields(tt.args), "--url", url)...)
			if code != tt.code || (code == 0) != (errs == "") {
				t.Errorf("exit code %d, want %d\n%s%s", code, tt.code, out, errs)
			}
			for _, text := range tt.holds {
				if !strings.Contains(out, text) {
					t.Errorf("no %q in\n%s", text, out)
				}
			}
			if strings.Contains(out, "\x1b") {
				t.Errorf("colours where no terminal is:\n%q", out)
			}
		})
	}
}

func TestEveryListAsJSON(t *testing.T) {
	w, url := world(t)
	w.Quiet = []events.Silence{{ID: "sil-1", Match: "true", Until: time.Now().Add(time.Hour), Why: "x"}}
	for _, args := range []string{
		"purchases list", "purchases show " + events.Samples()[3].Subject, "deliveries", "dead list", "dead show " + w.Letters[0].EventID,
		"silence list", "sinks list", "connections", "explain " + events.Samples()[3].Subject, "leakcheck", "dead replay --all --dry-run", "sinks test orders",
	} {
		code, out, errs := run(append(strings.Fields(args), "--json", "--url", url)...)
		if code != 0 || out == "" {
			t.Errorf("%s: exit code %d, %q, %s", args, code, out, errs)
		}
		for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
			var v map[string]any
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Errorf("%s: %v in %q", args, err, line)
			}
		}
	}
}

func TestLeakcheckFailsOnAFinding(t *testing.T) {
	w, url := world(t)
	w.Hoard = append(w.Hoard, console.Record{Store: "redis", Place: "herald:{x}", Text: "4111 1111 1111 1111"})
	code, out, errs := run("leakcheck", "--url", url)
	if code != 1 || !strings.Contains(out, "herald:{x}") || strings.Contains(out+errs, "4111") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

func TestFailedWishesAreFailures(t *testing.T) {
	w, url := world(t)
	w.Answer = func(string, console.Wish) (console.WishResult, error) {
		return console.WishResult{Status: console.WishFailed, Problem: "status (500)"}, nil
	}
	for _, args := range []string{"dead replay --all", "sinks test orders"} {
		code, out, _ := run(append(strings.Fields(args), "--url", url)...)
		if code != 1 || !strings.Contains(out, "status (500)") {
			t.Errorf("%s: exit code %d\n%s", args, code, out)
		}
	}
}

func TestSimulateReadsTheNewFile(t *testing.T) {
	_, url := world(t)
	file := filepath.Join(t.TempDir(), "new.yaml")
	text := "sinks:\n  - { name: orders, webhook: { url: \"https://orders.example.test/\" } }\n" +
		"subscriptions:\n  - { name: few, match: unsettled, sinks: [orders] }\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run("simulate", "-c", file, "--url", url)
	if code != 0 || !strings.Contains(out, "3 told by both") || !strings.Contains(out, "orders") || !strings.Contains(out, "-") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if code, _, _ := run("simulate", "--url", url); code != 2 {
		t.Errorf("without a file: exit code %d", code)
	}
	if err := os.WriteFile(file, []byte("subscriptions: [{ name: x }]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := run("simulate", "-c", file, "--url", url); code != 2 || !strings.Contains(errs, "new.yaml:1:") {
		t.Errorf("a wrong file: exit code %d, %s", code, errs)
	}
}

func TestTokenAndAddressAreFound(t *testing.T) {
	w := consoletest.New()
	inner := console.Handler(w.Options())
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			http.Error(rw, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(rw, r)
	}))
	defer s.Close()
	dir := t.TempDir()
	token, file := filepath.Join(dir, "token"), filepath.Join(dir, "herald.yaml")
	for name, text := range map[string]string{
		token: "s3cret\n", file: fmt.Sprintf("http: { listen: %q, token: \"file:token\" }\n", strings.TrimPrefix(s.URL, "http://")),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, errs := run("purchases", "list", "--url", s.URL); code != 1 || !strings.Contains(errs, "--token-file") {
		t.Errorf("without a token: %d %s", code, errs)
	}
	if code, _, errs := run("purchases", "list", "--url", s.URL+"/", "--token-file", token); code != 0 {
		t.Errorf("with a token: %d %s", code, errs)
	}
	if code, _, errs := run("purchases", "list", "-c", file); code != 0 {
		t.Errorf("from the file: %d %s", code, errs)
	}
	if code, _, _ := run("purchases", "list", "--url", s.URL, "--token-file", filepath.Join(dir, "none")); code != 2 {
		t.Errorf("a token that is not there: %d", code)
	}
	if code, _, errs := run("sinks", "list", "--url", "http://127.0.0.1:1"); code != 1 || !strings.Contains(errs, "is herald or notifier running there?") {
		t.Errorf("nobody there: %d %s", code, errs)
	}
}

func TestVerifyReceiverReports(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer s.Close()
	t.Setenv("HOOK_SECRET", "signing-secret-of-a-test")
	code, out, errs := run("verify-receiver", s.URL, "--secret", "env:HOOK_SECRET")
	if code != 1 || !strings.Contains(out, "rotated key") || !strings.Contains(out, "WRONG") || !strings.Contains(errs, "6 checks failed") ||
		strings.Contains(out+errs, "signing-secret-of-a-test") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	for _, args := range [][]string{{s.URL}, {s.URL, "--secret", "env:NOT_THERE"}, {"nowhere", "--secret", "x"}, {}} {
		if code, _, _ := run(append([]string{"verify-receiver"}, args...)...); code != 2 {
			t.Errorf("%v: exit code %d, want 2", args, code)
		}
	}
}

func TestManPagesAndCompletion(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	if code, _, errs := run("man", dir); code != 0 {
		t.Fatal(errs)
	}
	for _, name := range []string{"herald.1", "herald-dead-replay.1", "herald-verify-receiver.1"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Contains(b, []byte(".SH")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, out, _ := run("completion", shell); code != 0 || !strings.Contains(out, "herald") {
			t.Errorf("%s: exit code %d", shell, code)
		}
	}
}

// Every command that does something has a short text and an example; lists give JSON.
func TestCommandsExplainThemselves(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" {
			t.Errorf("%s has no short text", c.CommandPath())
		}
		if !c.HasSubCommands() && c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		if c.Name() == "list" && c.Flags().Lookup("json") == nil {
			t.Errorf("%s gives no JSON", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(command())
}

func TestColoursAreForTerminalsOnly(t *testing.T) {
	if coloured(&bytes.Buffer{}) {
		t.Error("a buffer is no terminal")
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as terminals are
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	if !coloured(null) {
		t.Error("a character device is taken for no terminal")
	}
	t.Setenv("NO_COLOR", "1")
	if coloured(null) {
		t.Error("NO_COLOR is not honoured")
	}
	var b bytes.Buffer
	if err := paint(&b, true, bad, "x"); err != nil || b.String() != "\x1b[31mx\x1b[0m\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

// A link called watcher or notifier is that program; any other name is the whole command line.
func TestTheNameDecides(t *testing.T) {
	for name, want := range map[string]string{"watcher": "watcher", "notifier": "notifier", "herald": "herald", "herald-0.1.0": "herald"} {
		c := named(name)
		if c.Name() != want || c.HasSubCommands() != (want == "herald") {
			t.Errorf("called as %s it is %s", name, c.Name())
		}
	}
}
