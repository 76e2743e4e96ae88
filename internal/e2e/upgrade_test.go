package e2e_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/redistest"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/stream"
)

// previous is the release whose files are under testdata. "go test ./internal/e2e -run Upgrade -record" writes them
// anew, with the programs of that release.
const previous = "0.1.0"

var record = flag.Bool("record", false, "write the files that upgrades are tested with")

// The purchases of the story, by the situation in which the files leave them.
const (
	bought  = "pur_00000000000000000000000000000a01" // done
	hanging = "pur_00000000000000000000000000000a02" // confirming, with an alarm that was told
	asked   = "pur_00000000000000000000000000000a03" // waiting for its user
)

// ledger is what the previous release had said when its files were written.
type ledger struct {
	Stored   []string            `json:"stored"`   // ids of events, in stream order
	Passed   []string            `json:"passed"`   // of them, those that sinks are told: not what was there at first contact
	Accepted map[string][]string `json:"accepted"` // path of the receiver -> ids
	Dead     []string            `json:"dead"`     // ids of dead letters
}

// site is one installation: embedded in one process, or with NATS and Redis outside.
type site struct {
	t       *testing.T
	outside bool
	dir     string // data of the embedded server, or of the one outside
	files   string // what is recorded
	sim     *envoysim.Sim
	hook    *sinkfakes.Hook
	config  string
	redis   *redistest.Server
	stop    func() // ends the NATS server outside
	nats    string
	procs   []*proc
	refuses map[string]int
}

// Today's programs go on with the files of the previous release: what it had not delivered is delivered, what it had
// said is not said again, and an alarm that it opened is closed.
func TestUpgradeFromThePreviousRelease(t *testing.T) {
	for name, outside := range map[string]bool{"embedded": false, "outside": true} {
		t.Run(name, func(t *testing.T) {
			if *record {
				recordFiles(t, name, outside)
			}
			s := newSite(t, name, outside)
			var was ledger
			if err := json.Unmarshal([]byte(readFile(t, s.files+".json")), &was); err != nil {
				t.Fatal(err)
			}
			unpack(t, s.files+".tar.gz", s.dir)
			s.open()
			if outside {
				s.restore()
			}
			s.play(func(string) {}) // Envoy stands where it stood
			s.receive(nil)
			out := s.run()
			await(t, time.Minute, "the backlog of the previous release is delivered", func() bool {
				return len(s.accepted()["/late"]) >= len(was.Passed)
			}, out)
			s.move(hanging, envoysim.Completed)
			await(t, time.Minute, "the change after it is told to all", func() bool {
				now, got := s.standing(hanging), s.accepted()
				return now.Situation == events.SituationDone && !now.Unsettled && len(got["/ops"]) > 0 &&
					slices.Contains(got["/orders"], now.EventID) && slices.Contains(got["/late"], now.EventID)
			}, out)
			if list := s.get("/v1/silences"); !strings.Contains(list, "a silence of the previous release") {
				t.Errorf("its silence is gone: %s", list)
			}
			if text := s.get("/v1/explain/" + bought); !strings.Contains(text, bought) {
				t.Errorf("what it stored is not explained: %s", text)
			}
			s.end()
			s.judge(was)
		})
	}
}

// judge holds what was stored and accepted since against the ledger.
func (s *site) judge(was ledger) {
	s.t.Helper()
	stored := s.stored()
	if len(stored) <= len(was.Stored) {
		s.t.Fatalf("stored %d events, after %d by the previous release", len(stored), len(was.Stored))
	}
	for i, id := range was.Stored {
		if stored[i].Event.ID != id {
			s.t.Fatalf("event %d is %s, it was %s", i, stored[i].Event.ID, id)
		}
	}
	var fresh []string
	for _, e := range stored[len(was.Stored):] {
		fresh = append(fresh, e.Event.ID)
		if e.Event.Subject != hanging {
			s.t.Errorf("%s was said again", e.Event.ID)
		}
	}
	if first := stored[len(was.Stored)].Event.Purchase; first.Previous == nil || !slices.Contains(was.Stored, first.Previous.ID) {
		s.t.Errorf("the first new event does not follow what was said: %+v", first.Previous)
	}
	got := s.accepted()
	if !slices.Equal(got["/orders"], fresh) {
		s.t.Errorf("orders was told %q, want %q", got["/orders"], fresh)
	}
	if slices.ContainsFunc(got["/ops"], func(id string) bool { return !slices.Contains(fresh, id) }) {
		s.t.Errorf("ops was told %q, want the end of its alarm only: %q", got["/ops"], fresh)
	}
	want := slices.Sorted(slices.Values(append(slices.Clone(was.Passed), fresh...)))
	if late := slices.Sorted(slices.Values(got["/late"])); !slices.Equal(late, want) {
		s.t.Errorf("the late sink was told %q, want each of %q once", late, want)
	}
	if dead := s.dead(); !slices.Equal(dead[:min(len(dead), len(was.Dead))], was.Dead) {
		s.t.Errorf("dead letters %q, want %q first", dead, was.Dead)
	}
}

// recordFiles runs this release, and keeps what it leaves.
func recordFiles(t *testing.T, name string, outside bool) {
	s := newSite(t, name, outside)
	s.open()
	s.receive(map[string]int{"/late": http.StatusServiceUnavailable, "/broken": http.StatusBadRequest})
	out := s.run()
	await(t, time.Minute, "first contact", func() bool { return strings.Contains(out(), "first contact") }, out)
	steps := map[string]int64{}
	s.play(func(id string) {
		revision := steps[id]
		steps[id]++
		await(t, time.Minute, fmt.Sprintf("revision %d of %s is stored", revision, id), func() bool {
			now := s.standing(id)
			return now.EventID != "" && now.Revision == revision
		}, out)
	})
	await(t, time.Minute, "the alarm is told, and all that is passed on is accepted and buried", func() bool {
		dead, got := s.get("/v1/dead?limit=100"), s.accepted()
		for _, id := range []string{bought, hanging} {
			if event := s.standing(id).EventID; !slices.Contains(got["/orders"], event) || !strings.Contains(dead, event) {
				return false
			}
		}
		return s.standing(hanging).Unsettled && slices.Contains(got["/ops"], s.standing(hanging).EventID)
	}, out)
	s.end()
	was := ledger{Accepted: s.accepted(), Dead: s.dead()}
	for _, e := range s.stored() {
		was.Stored = append(was.Stored, e.Event.ID)
		if e.Event.Purchase.Reading.Cause != events.CauseBaseline {
			was.Passed = append(was.Passed, e.Event.ID)
		}
	}
	s.preserve()
	body, err := json.MarshalIndent(was, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.files+".json", append(body, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	if s.stop != nil {
		s.stop() // so that its files are whole
	}
	pack(t, s.dir, s.files+".tar.gz")
}

func newSite(t *testing.T, name string, outside bool) *site {
	t.Helper()
	s := &site{t: t, outside: outside, dir: filepath.Join(t.TempDir(), "data"), files: filepath.Join("testdata", "upgrade-"+previous, name)}
	var err error
	if s.sim, err = envoysim.New(envoysim.Options{Seed: 7}); err != nil {
		t.Fatal(err)
	}
	if s.hook, err = sinkfakes.NewHook("127.0.0.1:0", nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.hook.Close() })
	return s
}

// open starts what is outside, and writes the configuration of the previous release for it.
func (s *site) open() {
	s.t.Helper()
	w := &world{t: s.t, sim: s.sim, hook: s.hook, dir: s.t.TempDir()}
	w.envoy = httptest.NewServer(s.sim.Handler())
	s.t.Cleanup(func() { w.envoy.CloseClientConnections(); w.envoy.Close() })
	w.write(w.dir, "token", s.sim.AddToken("asha", "origin:https://host.example.test"))
	w.write(w.dir, "hook", "whsec_"+base64.StdEncoding.EncodeToString([]byte(hookSecret)))
	places := ""
	if s.outside {
		s.redis = redistest.Own(s.t)
		s.nats, s.stop = serve(s.t, s.dir)
		places = fmt.Sprintf("url: %q, ", s.nats)
	}
	text := strings.NewReplacer("@NATS ", places, "@ENVOY", w.envoy.URL, "@HOOK", s.hook.URL(""), "@DATA", s.dir).
		Replace(readFile(s.t, filepath.Join(filepath.Dir(s.files), "herald.yaml")))
	if s.outside {
		text += fmt.Sprintf("redis: { url: %q }\n", s.redis.URL())
	}
	s.config = w.write(w.dir, "herald.yaml", text)
}

// run starts the programs and gives their output.
func (s *site) run() func() string {
	s.t.Helper()
	w := &world{t: s.t}
	if s.outside {
		s.procs = []*proc{w.start("watcher", "-c", s.config), w.start("notifier", "-c", s.config)}
	} else {
		s.procs = []*proc{w.start("herald", "run", "-c", s.config)}
	}
	for _, p := range s.procs {
		p.says(`"msg":"running"`)
	}
	return func() string {
		var all strings.Builder
		for _, p := range s.procs {
			all.WriteString(p.out.String())
		}
		return all.String()
	}
}

// end stops the programs as a service manager does.
func (s *site) end() {
	s.t.Helper()
	for _, p := range s.procs {
		if code := p.stop(); code != 0 {
			s.t.Errorf("exit code %d\n%s", code, p.out)
		}
	}
}

func (s *site) get(path string) string {
	s.t.Helper()
	resp, err := http.Get(s.procs[len(s.procs)-1].listen() + path)
	if err != nil {
		s.t.Fatal(err)
	}
	return readBody(s.t, resp)
}

// standing is how the console shows a purchase; zero: not at all.
func (s *site) standing(id string) console.Summary {
	s.t.Helper()
	var list console.PurchaseList
	if err := json.Unmarshal([]byte(s.get("/v1/purchases")), &list); err != nil {
		s.t.Fatal(err)
	}
	for _, one := range list.Items {
		if one.ID == id {
			return one
		}
	}
	return console.Summary{}
}

// play brings the purchases to where the files leave them.
func (s *site) play(after func(id string)) {
	s.t.Helper()
	for _, story := range []struct {
		id     string
		states []envoysim.State
	}{
		{bought, []envoysim.State{envoysim.Processing, envoysim.Completed}},
		{hanging, []envoysim.State{envoysim.Processing, envoysim.Verifying}},
		{asked, nil},
	} {
		id, states := story.id, story.states
		if _, err := s.sim.Put("asha", envoysim.Purchase{
			ID: id, Key: "key-" + id, State: envoysim.WaitingForUser, UserTask: envoysim.Approve, Rail: envoysim.OperatedCheckout,
			CheckoutBy: envoysim.ByEnvoy, MerchantName: "Example Store", MerchantURL: "https://shop.example.test", Amount: 249900,
		}); err != nil {
			s.t.Fatal(err)
		}
		after(id)
		for _, to := range states {
			s.move(id, to)
			after(id)
		}
	}
}

func (s *site) move(id string, to envoysim.State) {
	s.t.Helper()
	if err := s.sim.Transition(id, func(p *envoysim.Purchase) { p.State = to }); err != nil {
		s.t.Fatal(err)
	}
}

// receive answers the paths of refuses with their status, all others with 204.
func (s *site) receive(refuses map[string]int) {
	s.refuses = refuses
	s.hook.Always(&sinkfakes.Answer{Handler: func(w http.ResponseWriter, r *http.Request) {
		status, ok := refuses[r.URL.Path]
		if !ok {
			status = http.StatusNoContent
		}
		w.WriteHeader(status)
	}})
}

// accepted gives the ids that each receiver took.
func (s *site) accepted() map[string][]string {
	out := map[string][]string{}
	for _, r := range s.hook.Received() {
		if s.refuses[r.Path] == 0 {
			out[r.Path] = append(out[r.Path], r.Header.Get("webhook-id"))
		}
	}
	return out
}

// bus opens the stores while no program runs.
func (s *site) bus() *stream.Bus {
	s.t.Helper()
	o := stream.Options{URL: s.nats, Name: "test", MaxBytes: 1 << 30, Retention: 87600 * time.Hour}
	if !s.outside {
		o.Embedded = &stream.Embedded{Dir: s.dir}
	}
	b, err := stream.Open(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

func (s *site) stored() []events.Envelope {
	s.t.Helper()
	b := s.bus()
	defer b.Close(context.WithoutCancel(s.t.Context()))
	var out []events.Envelope
	for env, err := range b.Stored(s.t.Context(), time.Time{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		if env.Event.Purchase != nil {
			out = append(out, env)
		}
	}
	return out
}

func (s *site) dead() []string {
	s.t.Helper()
	b := s.bus()
	defer b.Close(context.WithoutCancel(s.t.Context()))
	var out []string
	for d, err := range b.Dead(s.t.Context(), "") {
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, d.EventID)
	}
	return out
}

// A newer release has been here: today's program refuses to go on, and says what to do.
func TestUpgradeBackFromANewerFormatIsRefused(t *testing.T) {
	s := newSite(t, "embedded", false)
	s.open()
	b := s.bus()
	str, err := b.JetStream().Stream(t.Context(), events.StreamPurchases)
	if err != nil {
		t.Fatal(err)
	}
	cfg := str.CachedInfo().Config
	cfg.Metadata = map[string]string{"herald.format": "2"}
	if _, err := b.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := (&world{t: t}).start("herald", "run", "-c", s.config)
	if code := p.exit(); code != 1 || !strings.Contains(p.out.String(), "stored by a newer version of Herald") {
		t.Errorf("exit code %d\n%s", code, p.out)
	}
}
