package envoy

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// fault is the first thing in a reply that breaks the contract. It names a
// place of the contract, never a byte of the reply.
type fault struct {
	path    string
	problem string
}

// Error names place and problem.
func (f *fault) Error() string { return f.path + " " + f.problem }

// maxMembers bounds the work that one object can make: names are searched for,
// and a reply of 1 MiB has room for 160,000. The contract names 27 at the most.
const maxMembers = 1000

// decoder decodes one document. It collects the first fault and the number of
// unknown fields. After a fault everything decodes to zero values, so callers
// look once, at the end.
type decoder struct {
	document
	path    []string // the objects that are open
	fault   *fault
	unknown int
	words   [64]string // decoded before: replies repeat them
}

// read begins with another text and tells whether it is JSON.
func (d *decoder) read(text []byte) bool {
	d.path, d.fault, d.unknown = d.path[:0], nil, 0
	return d.scan(text)
}

// fail notes a fault of a member of the open object, of that object itself where
// the name is empty.
func (d *decoder) fail(name, problem string) {
	if d.fault == nil {
		d.fault = &fault{path: strings.Trim(strings.Join(append(d.path, name), "."), "."), problem: problem}
	}
}

// object is a JSON object being decoded. Names are matched exactly, unlike in
// encoding/json, where "Purchase" would pass for "purchase". Whoever opens one
// closes it, the inner before the outer.
type object struct {
	d *decoder
	v int // none after a fault
}

func (d *decoder) object(name string, v int) object {
	d.path = append(d.path, name)
	switch {
	case d.fault != nil:
		return object{d, none}
	case v == none || d.values[v].kind != kindObject:
		d.fail("", "is not an object")
		return object{d, none}
	case d.crowded(v):
		d.fail("", "has too many members")
	}
	return object{d, v}
}

func (d *decoder) crowded(v int) bool {
	count := 0
	for n := v + 1; n < d.past(v); n = d.past(n + 1) {
		count++
	}
	return count > maxMembers
}

// find gives the member's value, none if it is not there. A name that comes
// twice is a fault: readers would disagree about which one counts.
func (o object) find(name string) int {
	found := none
	if o.v == none {
		return found
	}
	d := o.d
	for n := o.v + 1; n < d.past(o.v); n = d.past(n + 1) {
		if !d.is(n, name) {
			continue
		}
		if found != none {
			d.fail(name, "comes twice")
			return none
		}
		d.values[n].named = true
		found = n + 1
	}
	return found
}

// need gives the value of a required member, none after a fault.
func (o object) need(name string, kinds kind) int {
	v := o.find(name)
	if o.d.fault != nil {
		return none
	}
	if v == none {
		o.d.fail(name, "is missing")
		return none
	}
	return o.check(name, v, kinds)
}

// optional gives the value of a member that may be absent. Null counts as
// absent: the contract has no optional member for which null means more.
func (o object) optional(name string, kinds kind) int {
	v := o.find(name)
	if o.d.fault != nil || v == none || o.d.values[v].kind == kindNull {
		return none
	}
	return o.check(name, v, kinds)
}

func (o object) check(name string, v int, kinds kind) int {
	if o.d.values[v].kind&kinds == 0 {
		o.d.fail(name, "is not "+(kinds&^kindNull).String())
		return none
	}
	return v
}

// nullable is need for a member that may be null: none then.
func (o object) nullable(name string, kinds kind) int {
	v := o.need(name, kinds|kindNull)
	if v == none || o.d.values[v].kind == kindNull {
		return none
	}
	return v
}

// known marks members that the contract names and that are left where they are.
func (o object) known(names ...string) {
	for _, n := range names {
		o.find(n)
	}
}

// close counts the members that the contract does not name.
func (o object) close() {
	d := o.d
	d.path = d.path[:len(d.path)-1]
	if o.v == none {
		return
	}
	for n := o.v + 1; n < d.past(o.v); n = d.past(n + 1) {
		if !d.values[n].named {
			d.unknown++
		}
	}
}

func (o object) text(name string) string {
	if v := o.need(name, kindString); v != none {
		return o.d.unquote(v)
	}
	return ""
}

func (o object) textOrNull(name string) *string {
	v := o.nullable(name, kindString)
	if v == none {
		return nil
	}
	s := o.d.unquote(v)
	return &s
}

// matching is text that has to pass a test.
func (o object) matching(name string, valid func(string) bool, problem string) string {
	s := o.text(name)
	if o.d.fault == nil && !valid(s) {
		o.d.fail(name, problem)
		return ""
	}
	return s
}

func (o object) matchingOrNull(name string, valid func(string) bool, problem string) *string {
	s := o.textOrNull(name)
	if s != nil && !valid(*s) {
		o.d.fail(name, problem)
		return nil
	}
	return s
}

const (
	notWord = "is not a word of letters, digits and _"
	notID   = "is not a purchase id"
)

func (o object) word(name string) string {
	if v := o.need(name, kindString); v != none {
		return o.d.word(name, v)
	}
	return ""
}

func (o object) wordOrNull(name string) *string {
	v := o.nullable(name, kindString)
	if v == none {
		return nil
	}
	w := o.d.word(name, v)
	return &w
}

// word gives a word, the same copy of it for all replies that repeat it.
func (d *decoder) word(name string, v int) string {
	raw := d.raw(v)
	inner := raw[1 : len(raw)-1]
	if len(inner) > 0 {
		known := &d.words[(len(inner)*7+int(inner[0])+int(inner[len(inner)-1])*3)%len(d.words)]
		if *known == string(inner) {
			return *known
		}
		if w := string(inner); ValidWord(w) {
			*known = w
			return w
		}
	}
	w := d.unquote(v)
	if !ValidWord(w) {
		d.fail(name, notWord)
		return ""
	}
	return w
}

func (o object) id(name string) string { return o.matching(name, ValidPurchaseID, notID) }

func (o object) idOrNull(name string) *string {
	return o.matchingOrNull(name, ValidPurchaseID, notID)
}

func (o object) flag(name string) bool { return o.d.isTrue(o.need(name, kindBool)) }

func (o object) flagOrNull(name string) *bool { return o.d.flag(o.nullable(name, kindBool)) }

// flag gives a boolean of its own, nil for none.
func (d *decoder) flag(v int) *bool {
	if v == none {
		return nil
	}
	b := d.isTrue(v)
	return &b
}

func (d *decoder) isTrue(v int) bool { return v != none && d.raw(v)[0] == 't' }

func (o object) count(name string) int64 {
	if v := o.need(name, kindNumber); v != none {
		return o.d.count(name, v)
	}
	return 0
}

func (o object) countOrNull(name string) *int64 {
	v := o.nullable(name, kindNumber)
	if v == none {
		return nil
	}
	n := o.d.count(name, v)
	return &n
}

// count reads a whole number from 0. Digits are taken as they are: no detour
// over a float, which has 53 bits only.
func (d *decoder) count(name string, v int) int64 {
	n, err := strconv.ParseInt(string(d.raw(v)), 10, 64)
	if err != nil {
		d.fail(name, "is not a whole number of 64 bits")
		return 0
	}
	if n < 0 {
		d.fail(name, "is negative")
		return 0
	}
	return n
}

func (o object) moment(name string) time.Time {
	if v := o.need(name, kindString); v != none {
		return o.d.moment(name, v)
	}
	return time.Time{}
}

func (o object) momentOrNull(name string) *time.Time {
	v := o.nullable(name, kindString)
	if v == none {
		return nil
	}
	t := o.d.moment(name, v)
	return &t
}

func (d *decoder) moment(name string, v int) time.Time {
	var t time.Time
	text := d.raw(v)
	if d.values[v].escaped {
		text = []byte(`"` + d.unquote(v) + `"`)
	}
	text = text[1 : len(text)-1]
	// UnmarshalText is stricter about RFC 3339 than time.Parse, but for the comma.
	if err := t.UnmarshalText(text); err != nil || bytes.IndexByte(text, ',') >= 0 {
		d.fail(name, "is not an RFC 3339 time")
		return time.Time{}
	}
	return t
}
