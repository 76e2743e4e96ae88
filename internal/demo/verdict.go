package demo

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
)

// summary is what a demo comes to. Its JSON form is stable.
type summary struct {
	Purchases  int            `json:"purchases"`
	Revisions  int            `json:"revisions"`
	Published  int            `json:"published"`
	Duplicates int            `json:"duplicates"`
	Deliveries map[string]int `json:"deliveries"`
	SlowestMS  int64          `json:"slowest_ms"`
	Canaries   int            `json:"canaries"`
	Broken     []string       `json:"broken,omitempty"` // promises, in plain words

	held      int // ready replies that came under a hold that was allowed
	undone    []string
	late      []string
	documents [][]byte
	events    []events.Event // in the order of the stream
	lies      []string
}

// count is the part of the summary that is known at any moment.
func (v *view) count() summary {
	sent := 0
	for _, r := range v.st.hook.Received() {
		if r.Status/100 == 2 {
			sent++
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	purchases := map[string]bool{}
	for c := range v.changes {
		purchases[c.purchase] = true
	}
	return summary{
		Purchases: len(purchases), Revisions: len(v.changes), Published: len(v.published),
		Deliveries: map[string]int{
			"ops-slack": len(v.st.slack.Posts()), "ops-email": len(v.st.mail.Mails()), "orders": sent,
		},
	}
}

func (v *view) summary() *summary {
	s := v.count()
	s.undone, s.late = v.behind(), v.undelivered()
	s.documents, s.events, s.lies = v.documents, v.events, v.lies
	for _, r := range v.st.hook.Received() {
		at, ok := revisionOf(r.Body)
		if changed, known := v.changes[at]; ok && known {
			s.SlowestMS = max(s.SlowestMS, r.At.Sub(changed).Milliseconds())
		}
	}
	return &s
}

// evidence is everything that Herald left outside of the stand-ins.
type evidence struct {
	documents [][]byte // the events
	logs      []byte
	registry  *prometheus.Registry
	data      string // folder of the embedded server
	stores    []byte // what an outside store holds, where there is one
}

// judge holds every promise against what the stand-ins know.
func (s *summary) judge(st *stage, e evidence) {
	broken := func(format string, args ...any) { s.Broken = append(s.Broken, fmt.Sprintf(format, args...)) }
	s.Duplicates = int(value(e.registry, "herald_watch_duplicates_total"))
	var found []string
	s.Canaries, found = canaries(st, e)
	if s.Canaries > 0 {
		broken("no secret comes out: %d found, first in %s", s.Canaries, found[0])
	}
	if len(s.undone) > 0 {
		broken("nothing is lost: the newest state of %d purchases was not published, such as %s", len(s.undone), s.undone[0])
	}
	if len(s.late) > 0 {
		broken("every event reaches its sink: %d did not reach the webhook, such as %s", len(s.late), s.late[0])
	}
	seen := map[string]bool{}
	for _, r := range st.hook.Received() {
		if verdict(r) != "valid" {
			broken("webhooks are signed: %s is not", r.Header.Get("webhook-id"))
		}
		if id := r.Header.Get("webhook-id"); r.Status/100 == 2 {
			if seen[id] {
				broken("nothing is said twice: the webhook got %s again", id)
			}
			seen[id] = true
		}
	}
	s.judgeReads(st, broken)
	s.judgeWords(broken)
	s.judgeChain(broken)
	if s.Published == 0 && s.Purchases > 0 {
		broken("something happens: no event was published")
	}
}

// judgeReads looks for status reads that released payment details. Only one that
// waited, on a purchase that no read could know to become ready, is no fault: it was
// overtaken.
func (s *summary) judgeReads(st *stage, broken func(string, ...any)) {
	for id, reads := range st.sim.GuiltyReads() {
		record, _ := st.sim.Purchase(id)
		for _, r := range reads {
			switch {
			case r.LastSeen == envoysim.Ready || r.LastSeen == "":
				broken("the observer never acts: %s was read while ready", id)
			case record.Purchase.Rail == envoysim.GiftCard:
				broken("the observer never acts: the gift card %s was read as it became ready", id)
			case r.Wait <= 0 || !mayHold(record, r.AfterRevision):
				broken("the observer never acts: %s was read in %s and became ready", id, r.LastSeen)
			default:
				s.held++
			}
		}
	}
}

// mayHold tells whether the purchase, at the revision that a hold began with, was
// one to hold: waiting for the user, or checked out by Envoy.
func mayHold(r envoysim.Record, revision int) bool {
	for _, h := range r.History {
		if h.Revision == revision {
			return h.State == envoysim.WaitingForUser || h.CheckoutBy == envoysim.ByEnvoy
		}
	}
	return false
}

// judgeWords tells of every "stopped" and "not charged" that the ledger, at the
// moment the event came, contradicted.
func (s *summary) judgeWords(broken func(string, ...any)) {
	for _, lie := range s.lies {
		broken("it says no more than it knows: %s", lie)
	}
}

// lie compares an event's claims with the ledger: "not charged" and "stopped"
// leave no money set aside, taken or on its way. Empty: no contradiction.
func lie(sim *envoysim.Sim, e events.Event) string {
	p := e.Purchase
	if p == nil || !p.Terminal || p.Money == events.MoneyRefunded {
		return ""
	}
	if p.Situation != events.SituationStopped && (p.Money != events.MoneyNotCharged || p.Situation == events.SituationDone) {
		return ""
	}
	entry, ok := sim.Ledger(e.Subject)
	if !ok || entry.Status == envoysim.LedgerNone || entry.Status == envoysim.LedgerAuthorised || entry.Status == envoysim.LedgerRefunded {
		return ""
	}
	return fmt.Sprintf("%s is called %s, %s; the ledger says %s", e.ID, p.Situation, p.Money, entry.Status)
}

// judgeChain holds the events of each purchase together: no id twice, and each
// names the one before it.
func (s *summary) judgeChain(broken func(string, ...any)) {
	ids, last := map[string]bool{}, map[string]string{}
	for _, e := range s.events {
		if ids[e.ID] {
			broken("nothing is said twice: %s was published twice", e.ID)
		}
		ids[e.ID] = true
		if e.Type != events.TypeChanged {
			continue
		}
		before := ""
		if e.Purchase.Previous != nil {
			before = e.Purchase.Previous.ID
		}
		if before != last[e.Subject] {
			broken("nothing is lost: %s follows %q and names %q", e.ID, last[e.Subject], before)
		}
		last[e.Subject] = e.ID
	}
}

// verdict checks the Standard Webhooks signature of a request, on its own.
func verdict(r sinkfakes.Request) string {
	mac := hmac.New(sha256.New, []byte(hookKey))
	fmt.Fprintf(mac, "%s.%s.", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"))
	mac.Write(r.Body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, have := range strings.Fields(r.Header.Get("webhook-signature")) {
		if hmac.Equal([]byte(have), []byte(want)) {
			return "valid"
		}
	}
	return "WRONG"
}

// canaries counts the secrets of the stand-in that are anywhere but in it.
func canaries(st *stage, e evidence) (int, []string) {
	places := map[string][]byte{
		"events": bytes.Join(e.documents, nil), "logs": e.logs, "metrics": exposition(e.registry), "store": e.stores,
	}
	for _, r := range st.hook.Received() {
		places["webhook"] = append(places["webhook"], fmt.Sprint(r.Header, string(r.Body))...)
	}
	for _, r := range st.slack.Received() {
		// Slack's own token may go to Slack, which takes it in the form.
		places["slack"] = append(places["slack"], bytes.ReplaceAll(r.Body, []byte(slackTok), nil)...)
	}
	for _, m := range st.mail.Mails() {
		places["email"] = append(places["email"], m.Data...)
	}
	_ = filepath.WalkDir(e.data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if b, err := os.ReadFile(path); err == nil {
				places["files of NATS"] = append(places["files of NATS"], b...)
			}
		}
		return nil
	})
	count, where := 0, []string{}
	for _, c := range append(st.sim.Canaries(), slackTok, mailPass, hookKey) {
		for place, b := range places {
			if bytes.Contains(b, []byte(c)) {
				count++
				where = append(where, place)
			}
		}
	}
	return count, where
}

func exposition(reg *prometheus.Registry) []byte {
	var b bytes.Buffer
	families, _ := reg.Gather()
	for _, f := range families {
		_, _ = expfmt.MetricFamilyToText(&b, f)
	}
	return b.Bytes()
}

// value sums a counter over its labels.
func value(reg *prometheus.Registry, name string) float64 {
	sum := 0.0
	families, _ := reg.Gather()
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// print writes the summary for a person.
func (s *summary) print(w io.Writer) {
	fmt.Fprintf(w, "\n%d purchases, %d revisions in Envoy, %d events published, %d duplicates suppressed\n",
		s.Purchases, s.Revisions, s.Published, s.Duplicates)
	fmt.Fprintf(w, "notifications: slack %d, email %d, webhook %d\n",
		s.Deliveries["ops-slack"], s.Deliveries["ops-email"], s.Deliveries["orders"])
	fmt.Fprintf(w, "slowest change to delivery: %s\n", (time.Duration(s.SlowestMS) * time.Millisecond).Round(time.Millisecond))
	fmt.Fprintf(w, "canaries found outside Envoy: %d\n", s.Canaries)
	if s.held > 0 {
		fmt.Fprintf(w, "allowed reads that a change to ready overtook: %d\n", s.held)
	}
	if len(s.Broken) == 0 {
		fmt.Fprintln(w, "every promise held")
		return
	}
	for _, b := range s.Broken {
		fmt.Fprintln(w, "BROKEN:", b)
	}
}
