package console_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// feed gives the samples, then waits for the end of ctx as a live stream does.
type feed struct{ since chan time.Time }

func (f feed) Tail(ctx context.Context, since time.Time) iter.Seq2[events.Envelope, error] {
	f.since <- since
	return func(yield func(events.Envelope, error) bool) {
		for _, e := range events.Samples() {
			raw, err := events.Encode(e)
			if !yield(events.Envelope{Event: e, Raw: raw}, err) {
				return
			}
		}
		if !yield(events.Envelope{Bad: errors.New("no event"), Raw: []byte("{")}, nil) {
			return
		}
		<-ctx.Done()
		yield(events.Envelope{}, ctx.Err())
	}
}

// only matches by a word, as an expression would.
func only(expression string) (func(events.Event, time.Time) (bool, error), error) {
	if strings.Contains(expression, "==") {
		word := strings.Trim(strings.Split(expression, "==")[1], ` "`)
		return func(e events.Event, _ time.Time) (bool, error) {
			return e.Purchase != nil && string(e.Purchase.Situation) == word, nil
		}, nil
	}
	return nil, errors.New(`undeclared reference to "` + expression + `"`)
}

func serve(t *testing.T) (console.Client, feed) {
	t.Helper()
	f := feed{since: make(chan time.Time, 1)}
	s := httptest.NewServer(console.Handler(console.Options{Feed: f, Match: only}))
	t.Cleanup(s.Close)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	return console.Client{URL: s.URL, HTTP: client}, f
}

func TestTailGivesStoredDocumentsAsTheyAre(t *testing.T) {
	c, f := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	want := events.Samples()
	n := 0
	for env, err := range c.Tail(ctx, "", "1h") {
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := events.Encode(want[n])
		if string(env.Raw) != string(raw) || env.Event.ID != want[n].ID {
			t.Fatalf("event %d is\n%s\nnot\n%s", n, env.Raw, raw)
		}
		if n++; n == len(want) {
			break
		}
	}
	if n != len(want) {
		t.Fatalf("got %d events of %d", n, len(want))
	}
	if ago := time.Since(<-f.since); ago < 59*time.Minute || ago > 61*time.Minute {
		t.Errorf("since 1h asked for %s ago", ago)
	}
}

// A stream cannot begin at any time that can be written: the ends are those it can.
func TestSinceIsKeptWithinWhatTheStreamKnows(t *testing.T) {
	c, f := serve(t)
	for text, early := range map[string]bool{
		"0001-01-01T00:00:00Z": true, "1600-01-01T00:00:00Z": true, "2562047h": true,
		"2262-05-01T00:00:00Z": false, "9999-12-31T23:59:59Z": false, "": false,
	} {
		begun := time.Now()
		for _, err := range c.Tail(t.Context(), "", text) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		since := <-f.since
		if early && since != time.Unix(1, 0).UTC() {
			t.Errorf("since %q asks for %s, want the beginning", text, since)
		}
		if !early && (since.Before(begun) || since.After(time.Now())) {
			t.Errorf("since %q asks for %s, want now", text, since)
		}
	}
}

func TestTailMatches(t *testing.T) {
	c, f := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	for env, err := range c.Tail(ctx, `situation == "needs_support"`, "") {
		if err != nil {
			t.Fatal(err)
		}
		if env.Event.Purchase.Situation != events.SituationNeedsSupport {
			t.Errorf("%s came through", env.Event.Purchase.Situation)
		}
		cancel()
	}
	<-f.since
	cancel()
}

func TestTailRefusesWrongParameters(t *testing.T) {
	c, _ := serve(t)
	for name, p := range map[string]struct{ match, since, field string }{
		"expression": {"sitution", "", "match"},
		"duration":   {"", "yesterday", "since"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range c.Tail(t.Context(), p.match, p.since) {
				var r *console.Refusal
				if !errors.As(err, &r) || r.Status != http.StatusBadRequest || r.Field != p.field {
					t.Fatalf("got %v, want a refusal of %s", err, p.field)
				}
			}
		})
	}
}

func TestTailSaysWhereNobodyListens(t *testing.T) {
	c := console.Client{URL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: &http.Transport{}}}
	for _, err := range c.Tail(t.Context(), "", "") {
		if err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:1") || !strings.Contains(err.Error(), "running") {
			t.Errorf("error is %v", err)
		}
	}
}

func TestLineSaysFromAndTo(t *testing.T) {
	for _, e := range events.Samples() {
		line := console.Line(e)
		switch {
		case e.Notice != nil && !strings.Contains(line, string(e.Notice.Kind)):
			t.Errorf("%q does not name the notice", line)
		case e.Purchase == nil:
		case !strings.Contains(line, string(e.Purchase.Situation)), !strings.Contains(line, e.Purchase.Amount.Display):
			t.Errorf("%q lacks situation or amount", line)
		}
		if strings.ContainsAny(line, "\n\r") || strings.Contains(line, "%!") {
			t.Errorf("%q is no line", line)
		}
	}
}
