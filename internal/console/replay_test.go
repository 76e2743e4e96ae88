package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/console/consoletest"
)

// A receiver that has just come back is not flooded by what had failed at it.
func TestReplayKeepsItsPace(t *testing.T) {
	for body, pause := range map[string]time.Duration{
		`{"sink":"orders"}`: 100 * time.Millisecond, `{"sink":"orders","rate":0.5}`: 2 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := consoletest.Empty()
			buried(w, "orders", 20)
			var at []time.Time
			w.Answer = func(string, console.Wish) (console.WishResult, error) {
				at = append(at, time.Now())
				return console.WishResult{Status: console.WishDone}, nil
			}
			r := httptest.NewRequest(http.MethodPost, "/v1/dead/replay", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Host = "localhost"
			answer := httptest.NewRecorder()
			console.Handler(w.Options()).ServeHTTP(answer, r)
			if answer.Code != http.StatusOK || len(at) != 20 {
				t.Fatalf("%s: %d, %d asked: %s", body, answer.Code, len(at), answer.Body)
			}
			for i := 1; i < len(at); i++ {
				if d := at[i].Sub(at[i-1]); d != pause {
					t.Errorf("%s: letter %d came %s after the one before", body, i, d)
				}
			}
		})
	}
}

// One request replays a thousand letters and says how many are left.
func TestReplayIsBounded(t *testing.T) {
	w := consoletest.Empty()
	buried(w, "orders", 1005)
	c := open(t, w)
	var r console.ReplayReport
	if err := c.Post(t.Context(), "/v1/dead/replay", console.ReplayRequest{All: true, DryRun: true}, &r); err != nil {
		t.Fatal(err)
	}
	if r.Matched != 1005 || r.Left != 5 || len(r.Letters) != 1000 {
		t.Errorf("%d match, %d are left, %d would be sent", r.Matched, r.Left, len(r.Letters))
	}
}
