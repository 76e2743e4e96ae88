package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/console/consoletest"
	"github.com/heraldbridge/herald/internal/events"
)

// buried stores n letters of a sink.
func buried(w *consoletest.World, sink string, n int) {
	for i := range n {
		e := at(int64(i+1), events.SituationWorking, events.CauseRevision)
		raw, _ := events.Encode(e)
		w.Letters = append(w.Letters, events.DeadLetter{
			Sink: sink, EventID: e.ID, Sequence: uint64(i + 1), Reason: "exhausted", Detail: "timeout", Attempts: 8,
			First: time.Now().Add(-time.Hour), Buried: time.Now().Add(-time.Minute * time.Duration(n-i)), Event: raw,
		})
	}
}

func TestDeadLettersAreListedAndShown(t *testing.T) {
	w := consoletest.Empty()
	buried(w, "orders", 3)
	buried(w, "ops", 1)
	w.Letters = append(w.Letters, events.DeadLetter{Sink: "ops", EventID: "bad-1", Reason: "undecodable", Event: []byte("no json\x00")})
	c := open(t, w)
	var list struct {
		console.Page[console.DeadView]
		Total int
	}
	if err := query(t, c, "/v1/dead", "sink=orders&limit=2", &list); err != nil || list.Total != 3 || len(list.Items) != 2 || list.Next == "" {
		t.Fatalf("%+v, %v", list, err)
	}
	if list.Items[0].Buried.Before(list.Items[1].Buried) || len(list.Items[0].Event) != 0 || list.Items[0].PurchaseID == "" {
		t.Errorf("list: %+v", list.Items)
	}
	one := ask[console.Page[console.DeadView]](t, c, "/v1/dead/"+w.Letters[0].EventID)
	if len(one.Items) != 2 || !strings.Contains(string(one.Items[0].Event), `"specversion"`) {
		t.Errorf("one: %+v", one)
	}
	if bad := ask[console.Page[console.DeadView]](t, c, "/v1/dead/bad-1").Items[0]; string(bad.Raw) != "no json\x00" || len(bad.Event) != 0 {
		t.Errorf("no event: %+v", bad)
	}
	refused(t, c.Get(t.Context(), "/v1/dead/nothing", nil, nil), 404, "event")
	id := w.Letters[0].EventID
	refused(t, c.Delete(t.Context(), "/v1/dead/none/"+id), 404, "sink")
	if err := c.Delete(t.Context(), "/v1/dead/orders/"+id); err != nil {
		t.Fatal(err)
	}
	if left := ask[console.Page[console.DeadView]](t, c, "/v1/dead/"+id); len(left.Items) != 1 || left.Items[0].Sink != "ops" {
		t.Errorf("left: %+v", left)
	}
}

func TestReplayAsksTheOwnersInOrder(t *testing.T) {
	w := consoletest.Empty()
	buried(w, "orders", 3)
	buried(w, "ops", 1)
	first := w.Letters[0].EventID
	c := open(t, w)
	replay := func(q console.ReplayRequest) console.ReplayReport {
		t.Helper()
		var r console.ReplayReport
		if err := c.Post(t.Context(), "/v1/dead/replay", q, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := replay(console.ReplayRequest{All: true, DryRun: true}); r.Matched != 4 || r.Asked != 0 || len(r.Letters) != 4 || len(w.Asked()) != 0 {
		t.Errorf("dry run: %+v", r)
	}
	if r := replay(console.ReplayRequest{Event: first, Sink: "ops"}); r.Matched != 1 || r.Asked != 1 || w.Asked()[0] != (console.Wish{Kind: console.WishReplay, Event: first}) {
		t.Errorf("one: %+v %+v", r, w.Asked())
	}
	if r := replay(console.ReplayRequest{Sink: "orders", Rate: 1000}); r.Asked != 3 {
		t.Errorf("a sink: %+v", r)
	}
	asked := w.Asked()[1:]
	for i, wish := range asked {
		if want := events.EventID(asked0(asked), events.Position{Revision: int64(i + 1)}); wish.Event != want {
			t.Errorf("wish %d is %s, want %s", i, wish.Event, want)
		}
	}
	if len(w.Letters) != 0 {
		t.Errorf("%d letters left", len(w.Letters))
	}
	for name, q := range map[string]console.ReplayRequest{
		"none": {}, "two": {All: true, Event: "x"}, "all and sink": {All: true, Sink: "x"}, "rate": {All: true, Rate: -1},
		"rate over": {All: true, Rate: 1e300}, "rate of a tick beyond all time": {All: true, Rate: 1e-300},
	} {
		field := "event"
		if strings.HasPrefix(name, "rate") {
			field = "rate"
		}
		refused(t, c.Post(t.Context(), "/v1/dead/replay", q, nil), 400, field)
	}
}

func asked0(list []console.Wish) string { return list[0].Event[:strings.Index(list[0].Event, "-")] }

func TestReplayWithoutAnOwner(t *testing.T) {
	w := consoletest.Empty()
	buried(w, "orders", 3)
	w.Answer = func(string, console.Wish) (console.WishResult, error) {
		return console.WishResult{}, fmt.Errorf("ask: %w", console.ErrNoOwner)
	}
	c := open(t, w)
	var r console.ReplayReport
	if err := c.Post(t.Context(), "/v1/dead/replay", console.ReplayRequest{All: true}, &r); err != nil {
		t.Fatal(err)
	}
	if r.Asked != 0 || len(w.Asked()) != 1 || r.Letters[2].Problem == "" || r.Letters[2].Status != console.WishRefused {
		t.Errorf("%+v after %d questions", r, len(w.Asked()))
	}
}

func TestSilences(t *testing.T) {
	w := consoletest.New()
	c := open(t, w)
	now := time.Now()
	for name, tt := range map[string]struct {
		q     console.SilenceRequest
		field string
	}{
		"no match":    {console.SilenceRequest{For: console.Duration(time.Hour), Why: "x"}, "match"},
		"wrong match": {console.SilenceRequest{Match: "nope", For: console.Duration(time.Hour), Why: "x"}, "match"},
		"no end":      {console.SilenceRequest{Match: "true", Why: "x"}, "until"},
		"two ends":    {console.SilenceRequest{Match: "true", For: 1, Until: now.Add(time.Hour), Why: "x"}, "for"},
		"past":        {console.SilenceRequest{Match: "true", Until: now.Add(-time.Hour), Why: "x"}, "until"},
		"back":        {console.SilenceRequest{Match: "true", For: console.Duration(-time.Hour), Why: "x"}, "until"},
		"too long":    {console.SilenceRequest{Match: "true", For: console.Duration(31 * 24 * time.Hour), Why: "x"}, "until"},
		"no reason":   {console.SilenceRequest{Match: "true", For: console.Duration(time.Hour), Why: " "}, "why"},
		"two lines":   {console.SilenceRequest{Match: "true", For: console.Duration(time.Hour), Why: "a\nb"}, "why"},
		"turned text": {console.SilenceRequest{Match: "true", For: console.Duration(time.Hour), Why: "a", By: "\u202eb"}, "by"},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, c.Post(t.Context(), "/v1/silences", tt.q, nil), http.StatusBadRequest, tt.field)
		})
	}
	refused(t, c.Post(t.Context(), "/v1/silences", map[string]any{"match": "true", "for": 5, "why": "x"}, nil), 400, "for")
	if len(w.Quiet) != 0 {
		t.Fatalf("%d silences after refusals", len(w.Quiet))
	}
	var s events.Silence
	if err := c.Post(t.Context(), "/v1/silences", console.SilenceRequest{Match: "unsettled", For: console.Duration(2 * time.Hour), Why: "moving", By: "asha"}, &s); err != nil {
		t.Fatal(err)
	}
	if d := time.Until(s.Until); d < 119*time.Minute || d > 120*time.Minute || s.ID == "" || !events.ValidEventID(s.ID) {
		t.Errorf("%+v", s)
	}
	list := ask[console.Page[events.Silence]](t, c, "/v1/silences")
	if len(list.Items) != 1 || list.Items[0].Why != "moving" {
		t.Errorf("%+v", list)
	}
	refused(t, c.Delete(t.Context(), "/v1/silences/sil-other"), 404, "id")
	if err := c.Delete(t.Context(), "/v1/silences/"+s.ID); err != nil || len(w.Quiet) != 0 {
		t.Errorf("%v, %d left", err, len(w.Quiet))
	}
}

func TestSinksAndConnections(t *testing.T) {
	w := consoletest.New()
	w.SinkList = []console.Sink{{Name: "zeta", State: "running"}, {Name: "alpha", State: "down"}}
	w.ConnList = []console.Connection{{Name: "a", Owner: "x"}, {Name: "b", Owner: "x", Blind: true}, {Name: "c", Parked: "token", Owner: "x"}}
	c := open(t, w)
	if s := ask[console.Page[console.Sink]](t, c, "/v1/sinks").Items; s[0].Name != "alpha" || s[1].Name != "zeta" {
		t.Errorf("sinks %+v", s)
	}
	if s := ask[console.Page[console.Connection]](t, c, "/v1/connections").Items; s[0].Name != "b" || s[1].Name != "c" || s[2].Name != "a" {
		t.Errorf("connections %+v", s)
	}
	var res console.WishResult
	if err := c.Post(t.Context(), "/v1/sinks/alpha/test", struct{}{}, &res); err != nil || res.Status != console.WishDone {
		t.Errorf("%+v, %v", res, err)
	}
	w.Answer = func(string, console.Wish) (console.WishResult, error) {
		return console.WishResult{}, console.ErrNoOwner
	}
	refused(t, c.Post(t.Context(), "/v1/sinks/alpha/test", struct{}{}, nil), 503, "")
	refused(t, c.Post(t.Context(), "/v1/sinks/other/test", struct{}{}, nil), 404, "sink")
	refused(t, c.Post(t.Context(), "/v1/sinks/a.b/test", struct{}{}, nil), 400, "sink")
}

func TestLeakcheckFindsCardsAndSecrets(t *testing.T) {
	w := consoletest.Empty()
	w.Known = []console.Secret{{Name: "file:/run/token", In: func(s string) bool { return strings.Contains(s, "s3cret-token") }}}
	texts := map[string]string{ // what is found in it
		"paid with 4111 1111 1111 1111.":                                "card",
		`{"pan":"4111111111111111"}`:                                    "card",
		"3782-822463-10005":                                             "card",
		"x=6011111111111117&y":                                          "card",
		"4111 1111 1111 1112":                                           "",
		"pur_4111111111111111aaaaaaaaaaaaaaaa-0-4-0":                    "",
		"trace 00-4bf92f3577b34da6a3ce929d0e0e4736-4111111111111111-01": "",
		"host-a-parked-1790000000000":                                   "",
		"41111111111111111111111":                                       "",
		"Bearer s3cret-token":                                           "secret",
		"nothing at all":                                                "",
	}
	want := 0
	for text, kind := range texts {
		if kind != "" {
			want++
		}
		w.Hoard = append(w.Hoard, console.Record{Store: "ENVOY_DEAD", Place: text, Text: text})
	}
	var r console.LeakReport
	if err := open(t, w).Post(t.Context(), "/v1/leakcheck", struct{}{}, &r); err != nil {
		t.Fatal(err)
	}
	if r.Total != want || r.Records["ENVOY_DEAD"] != len(texts) || r.Secrets != 1 {
		t.Errorf("%+v, want %d", r, want)
	}
	for _, f := range r.Findings {
		if texts[f.Place] != f.Kind {
			t.Errorf("%q: %s, want %q", f.Place, f.Kind, texts[f.Place])
		}
	}
}

func TestWishSubject(t *testing.T) {
	if s, err := console.WishSubject("ops-slack"); err != nil || s != "envoy.control.sink.ops-slack" {
		t.Errorf("%s, %v", s, err)
	}
	for _, bad := range []string{"", "a.b", "*", ">", strings.Repeat("a", 65)} {
		if s, err := console.WishSubject(bad); err == nil {
			t.Errorf("%q gives %s", bad, s)
		}
	}
}
