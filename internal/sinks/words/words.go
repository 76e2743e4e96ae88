// Package words turns an event into plain sentences, once for all sinks.
//
// One table (table.go) says every situation, money word, reason code and notice;
// Of puts them together with the facts of an event into a Message, and the sinks
// only format that. Two rules hold for every sentence: nothing is claimed about
// money that the event's money word does not say, and where money may have moved
// unseen, nobody is left in doubt that paying again is wrong. Text that came from
// outside is made harmless by Plain before it enters a Message, but is not escaped
// for any format: that is the sink's part.
package words

import (
	"strconv"
	"strings"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// Message is a notification in words, without any markup.
type Message struct {
	Title   string   // what is the matter, a few words
	Subject string   // Title with what it is about, one line
	Lines   []string // what is the matter, in sentences of ours
	Avoid   string   // what nobody should do; "": nothing to warn of
	Next    string   // what comes now and whose move it is; "": nothing
	Quotes  []Quote  // what others said, word for word
	Facts   []Fact
	Footer  []string // where it came from: event, revision, subscription
	Tone    Tone
	Urgent  bool
}

// Quote is a text of somebody else.
type Quote struct {
	By   string // who says it: "Envoy says"
	Text string
}

// Fact is a name and a value. At is set where the value is a moment. A minor one
// is for whoever looks closer or speaks with support.
type Fact struct {
	Name  string
	Value string
	At    time.Time
	Minor bool
}

// Text is all sentences in one line: what is the matter, what not to do, what comes.
func (m Message) Text() string {
	all := append([]string{}, m.Lines...)
	for _, s := range []string{m.Avoid, m.Next} {
		if s != "" {
			all = append(all, s)
		}
	}
	return strings.Join(all, " ")
}

// Reference is what Envoy's support finds the purchase by; "": nothing is known.
func (m Message) Reference() string {
	for _, name := range []string{factSupport, factRequest} {
		for _, f := range m.Facts {
			if f.Name == name {
				return f.Name + " " + f.Value
			}
		}
	}
	return ""
}

// Major gives the facts that everybody reads, and Minor the others, in order.
func (m Message) Major() []Fact { return m.facts(false) }

// Minor gives the facts for whoever looks closer.
func (m Message) Minor() []Fact { return m.facts(true) }

func (m Message) facts(minor bool) []Fact {
	var out []Fact
	for _, f := range m.Facts {
		if f.Minor == minor {
			out = append(out, f)
		}
	}
	return out
}

// Names of the facts that support asks for.
const (
	factSupport = "Support reference"
	factRequest = "Request reference"
)

// limits of single pieces, in UTF-16 units; sinks cut further where they must.
const (
	nameLimit  = 120
	quoteLimit = 2000
	listItems  = 10
)

// Kind says why something is said. The words are those of a sink's notification,
// which this package does not know.
type Kind string

// Kinds of occasion.
const (
	KindEvent   Kind = "event"
	KindOpen    Kind = "open"
	KindUpdate  Kind = "update"
	KindRemind  Kind = "remind"
	KindResolve Kind = "resolve"
	KindTest    Kind = "test"
)

// Occasion is what is to be said, and why.
type Occasion struct {
	Kind         Kind
	Event        events.Event
	Subscription string
	Urgent       bool
	Replay       bool
	Since        time.Time // when the alarm began
	Now          time.Time // when it is said; zero: ages are left out
	Held         int       // changes held back since the last message
}

// Of says an occasion. Times are written in loc; nil: UTC.
func Of(n Occasion, loc *time.Location) Message {
	if loc == nil {
		loc = time.UTC
	}
	w := writer{n: n, loc: loc}
	switch {
	case n.Event.Purchase != nil:
		w.purchase(n.Event.Purchase)
	case n.Event.Notice != nil:
		w.notice(n.Event.Notice)
	default:
		w.m.Title, w.m.Tone = "Notification", ToneCalm
	}
	w.kind()
	w.held()
	w.footer()
	w.m.Urgent = n.Urgent
	return w.m
}

type writer struct {
	n   Occasion
	loc *time.Location
	m   Message
}

func (w *writer) line(s string) {
	if s != "" {
		w.m.Lines = append(w.m.Lines, s)
	}
}

func (w *writer) fact(name, value string) {
	if value != "" {
		w.m.Facts = append(w.m.Facts, Fact{Name: name, Value: value})
	}
}

func (w *writer) minor(name, value string) {
	if value != "" {
		w.m.Facts = append(w.m.Facts, Fact{Name: name, Value: value, Minor: true})
	}
}

func (w *writer) moment(name string, at *time.Time) {
	if at == nil || at.IsZero() {
		return
	}
	value := Moment(*at, w.loc)
	if !w.n.Now.IsZero() {
		value += " (" + relative(*at, w.n.Now) + ")"
	}
	w.m.Facts = append(w.m.Facts, Fact{Name: name, Value: value, At: *at})
}

func (w *writer) quote(by, text string) {
	if text = Cut(Plain(text), quoteLimit, Units); text != "" {
		w.m.Quotes = append(w.m.Quotes, Quote{by, text})
	}
}

// deadline has one name while it is to come and another when it is over.
func (w *writer) deadline(ahead, over string, at *time.Time) {
	if at != nil && at.Before(w.n.Now) {
		ahead = over
	}
	w.moment(ahead, at)
}

// Moment writes a time with its zone, to the minute.
func Moment(t time.Time, loc *time.Location) string {
	return t.In(loc).Format("2 Jan 2006, 15:04 MST")
}

// Amount writes a sum: as Envoy displays it, else its digits. The zero Amount is "".
func Amount(a events.Amount) string {
	if d := Cut(Plain(a.Display), nameLimit, Units); d != "" {
		return d
	}
	if a.Currency == "" {
		return ""
	}
	return Plain(a.Currency) + " " + Major(a.Minor)
}

// Major writes an amount of hundredths digit for digit: 249900 is "2499.00".
func Major(minor int64) string {
	sign := ""
	magnitude := uint64(minor)
	if minor < 0 {
		sign, magnitude = "-", -magnitude
	}
	s := strconv.FormatUint(magnitude, 10)
	if len(s) < 3 {
		s = strings.Repeat("0", 3-len(s)) + s
	}
	return sign + s[:len(s)-2] + "." + s[len(s)-2:]
}

func digits(n int64) string { return strconv.FormatInt(n, 10) }

func name(s string) string { return Cut(Plain(s), nameLimit, Units) }

// kind puts before the title why the message goes out.
func (w *writer) kind() {
	prefix := ""
	switch w.n.Kind {
	case KindUpdate:
		prefix = "Changed: "
		w.lasted("This alarm has been open for ")
	case KindRemind:
		prefix = "Still open: "
		w.lasted("This alarm has been open for ")
	case KindResolve:
		prefix = "Alarm over: "
		w.m.Tone = resolvedTone(w.n.Event)
		w.lasted("The alarm was open for ")
	case KindTest:
		prefix = "Test: "
		w.m.Lines = append([]string{"This is a test of the sink, sent by an operator. Nothing happened."}, w.m.Lines...)
	case KindEvent, KindOpen:
	}
	if w.n.Replay {
		prefix = "Replayed: " + prefix
	}
	about := w.m.Subject
	w.m.Title = prefix + w.m.Title
	w.m.Subject = w.m.Title
	if about != "" {
		w.m.Subject += ": " + about
	}
}

// lasted says how long the alarm is or was open.
func (w *writer) lasted(text string) {
	if !w.n.Since.IsZero() && !w.n.Now.IsZero() {
		w.line(text + Age(w.n.Now.Sub(w.n.Since)) + ".")
	}
}

// held says that the pace of the receiver, or a wait, left changes out.
func (w *writer) held() {
	switch {
	case w.n.Held == 1:
		w.line("One earlier change was held back; this is the newest.")
	case w.n.Held > 1:
		w.line(digits(int64(w.n.Held)) + " earlier changes were held back; this is the newest.")
	}
}

// resolvedTone keeps the tone of trouble for an alarm that ended in other trouble.
func resolvedTone(e events.Event) Tone {
	if p := e.Purchase; p != nil && !p.Unsettled {
		return ToneGood
	}
	if e.Purchase != nil {
		return ToneWarn
	}
	return ToneGood
}

func (w *writer) footer() {
	add := func(label, value string) {
		if value != "" {
			w.m.Footer = append(w.m.Footer, label+" "+value)
		}
	}
	add("event", name(w.n.Event.ID))
	if p := w.n.Event.Purchase; p != nil {
		add("revision", digits(p.Reading.Revision))
	}
	add("subscription", name(w.n.Subscription))
}
