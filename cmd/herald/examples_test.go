package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/console/consoletest"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
)

// shown is the purchase that examples speak of.
const shown = "pur_0b1e9c7a3f2d5a8e9c0b1d2e3f4a5b6c"

// TestExamplesWork runs every example of every command that speaks to a process, against one that has what they name.
func TestExamplesWork(t *testing.T) {
	word := regexp.MustCompile(`'([^']*)'|(\S+)`)
	ran := 0
	for _, c := range leaves(command()) {
		if c.Flags().Lookup("url") == nil && c.Parent().Name() != "config" {
			continue // it speaks to nobody: its own tests run it
		}
		for _, line := range strings.Split(c.Example, "\n") {
			t.Run(strings.TrimSpace(line), func(t *testing.T) {
				w, url := exampleWorld(t)
				line, _, _ = strings.Cut(line, " | ")
				line, _, _ = strings.Cut(line, " > ")
				line, _, _ = strings.Cut(line, " && ")
				var args []string
				for _, m := range word.FindAllStringSubmatch(strings.ReplaceAll(line, "http://127.0.0.1:9464", url), -1) {
					args = append(args, m[1]+m[2])
				}
				if c.Flags().Lookup("url") != nil {
					args = append(args, "--url", url)
				}
				code, said := runUntilItSpeaks(t, w, args[1:])
				if code != 0 || said == "" {
					t.Errorf("exit code %d\n%s", code, said)
				}
			})
			ran++
		}
	}
	if ran < 25 {
		t.Errorf("only %d examples", ran)
	}
}

// exampleWorld serves what examples name, and writes the files that they read.
func exampleWorld(t *testing.T) (*consoletest.World, string) {
	t.Helper()
	w, _ := world(t)
	o := w.Options()
	o.Match = func(expression string) (func(events.Event, time.Time) (bool, error), error) {
		p, err := route.CompileMatch(expression) // as a process has it
		if err != nil {
			return nil, err
		}
		return p.Match, nil
	}
	s := httptest.NewServer(console.Handler(o))
	t.Cleanup(s.Close)
	url := s.URL
	e := events.Samples()[3]
	p := *e.Purchase
	p.ChainRoot, p.Reading.Revision = shown, 4
	e.Subject, e.Purchase, e.ID = shown, &p, events.EventID(shown, events.Position{Revision: 4})
	stored := w.Store(e)
	w.Letters = append(w.Letters, events.DeadLetter{Sink: "orders", EventID: e.ID, Reason: "refused", Attempts: 3, Buried: time.Now(), Event: stored.Raw})
	w.SinkList = append(w.SinkList, console.Sink{Name: "ops-slack", Kind: "slack", State: "running", Configured: true})
	w.Quiet = []events.Silence{{ID: "sil-4k2m9q7xw3ba", Match: "true", Until: time.Now().Add(time.Hour), Why: "an example"}}
	t.Chdir(t.TempDir())
	text := fmt.Sprintf(`http: { listen: %q }
connections: [{ name: host-a, base_url: "https://api.envoy.example.test", token: "file:token" }]
sinks: [{ name: orders, webhook: { url: "https://orders.example.test/", secrets: ["file:token"] } }]
subscriptions: [{ name: all, match: "true", sinks: [orders] }]
`, strings.TrimPrefix(url, "http://"))
	for name, text := range map[string]string{"herald.yaml": text, "new.yaml": text, "token": strings.Repeat("synthetic-", 4)} {
		if err := os.WriteFile(filepath.Join(".", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w, url
}

// runUntilItSpeaks runs a command until it ends. One that follows events gets some, and is interrupted at its first line.
func runUntilItSpeaks(t *testing.T, w *consoletest.World, args []string) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	out := &firstLine{}
	var world sync.WaitGroup
	if args[0] == "events" {
		out.then = cancel
		world.Go(func() { happen(ctx, w) })
	}
	root := command()
	root.SetOut(out)
	root.SetErr(out)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	cancel()
	world.Wait()
	if err != nil {
		fmt.Fprintln(out, err)
	}
	return app.ExitCode(err), out.String()
}

// happen stores event after event.
func happen(ctx context.Context, w *consoletest.World) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.Store(events.Samples()[3])
		}
	}
}

// firstLine keeps what is written, and acts at the end of the first line.
type firstLine struct {
	bytes.Buffer
	then func()
}

func (f *firstLine) Write(p []byte) (int, error) {
	n, err := f.Buffer.Write(p)
	if f.then != nil && bytes.ContainsRune(p, '\n') {
		f.then()
	}
	return n, err
}

func TestBrowserIsTheSystemsOwn(t *testing.T) {
	for system, want := range map[string]string{"linux": "xdg-open", "freebsd": "xdg-open", "darwin": "open", "windows": "rundll32 url.dll,FileProtocolHandler"} {
		if got := strings.Join(browser(system, ""), " "); got != want {
			t.Errorf("%s: %s, want %s", system, got, want)
		}
		if got := browser(system, "w3m"); len(got) != 1 || got[0] != "w3m" {
			t.Errorf("%s: %q with a wish", system, got)
		}
	}
	t.Setenv("BROWSER", filepath.Join(t.TempDir(), "none"))
	if err := openPage(t.Context(), "http://127.0.0.1:9464/"); err == nil || !strings.Contains(err.Error(), "BROWSER") {
		t.Errorf("error %v", err)
	}
}
