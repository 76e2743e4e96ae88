package envoy

import (
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

// decoder collects the first fault and the number of unknown fields. After a
// fault everything decodes to zero values, so callers look once, at the end.
type decoder struct {
	fault   *fault
	unknown int
}

func (d *decoder) fail(path, problem string) {
	if d.fault == nil {
		d.fault = &fault{path: path, problem: problem}
	}
}

// object is a JSON object being decoded. Names are matched exactly, unlike in
// encoding/json, where "Purchase" would pass for "purchase".
type object struct {
	d       *decoder
	path    string
	members []member
}

func (d *decoder) object(path string, raw []byte) *object {
	o := &object{d: d, path: path}
	if d.fault != nil {
		return o
	}
	if kindOf(raw) != kindObject {
		d.fail(path, "is not an object")
		return o
	}
	if o.members = members(raw); len(o.members) > maxMembers {
		d.fail(path, "has too many members")
	}
	return o
}

func (o *object) at(name string) string {
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

// find gives the member's value, nil if it is not there. A name that comes
// twice is a fault: readers would disagree about which one counts.
func (o *object) find(name string) []byte {
	var v []byte
	for i := range o.members {
		m := &o.members[i]
		if !m.is(name) {
			continue
		}
		if v != nil {
			o.d.fail(o.at(name), "comes twice")
			return nil
		}
		m.named = true
		v = m.value
	}
	return v
}

// need gives the value of a required member, nil after a fault.
func (o *object) need(name string, kinds kind) []byte {
	v := o.find(name)
	if o.d.fault != nil {
		return nil
	}
	if v == nil {
		o.d.fail(o.at(name), "is missing")
		return nil
	}
	return o.check(name, v, kinds)
}

// optional gives the value of a member that may be absent. Null counts as
// absent: the contract has no optional member for which null means more.
func (o *object) optional(name string, kinds kind) []byte {
	v := o.find(name)
	if o.d.fault != nil || v == nil || kindOf(v) == kindNull {
		return nil
	}
	return o.check(name, v, kinds)
}

func (o *object) check(name string, v []byte, kinds kind) []byte {
	if kindOf(v)&kinds == 0 {
		o.d.fail(o.at(name), "is not "+(kinds&^kindNull).String())
		return nil
	}
	return v
}

// nullable is need for a member that may be null: nil then.
func (o *object) nullable(name string, kinds kind) []byte {
	v := o.need(name, kinds|kindNull)
	if v == nil || kindOf(v) == kindNull {
		return nil
	}
	return v
}

// known marks members that the contract names and that are left where they are.
func (o *object) known(names ...string) {
	for _, n := range names {
		o.find(n)
	}
}

// close counts the members that the contract does not name.
func (o *object) close() {
	for i := range o.members {
		if !o.members[i].named {
			o.d.unknown++
		}
	}
}

func (o *object) text(name string) string {
	if v := o.need(name, kindString); v != nil {
		return unquote(v)
	}
	return ""
}

func (o *object) textOrNull(name string) *string {
	v := o.nullable(name, kindString)
	if v == nil {
		return nil
	}
	s := unquote(v)
	return &s
}

// matching is text that has to pass a test.
func (o *object) matching(name string, valid func(string) bool, problem string) string {
	s := o.text(name)
	if o.d.fault == nil && !valid(s) {
		o.d.fail(o.at(name), problem)
		return ""
	}
	return s
}

func (o *object) matchingOrNull(name string, valid func(string) bool, problem string) *string {
	s := o.textOrNull(name)
	if s != nil && !valid(*s) {
		o.d.fail(o.at(name), problem)
		return nil
	}
	return s
}

const (
	notWord = "is not a word of letters, digits and _"
	notID   = "is not a purchase id"
)

func (o *object) word(name string) string { return o.matching(name, ValidWord, notWord) }

func (o *object) wordOrNull(name string) *string { return o.matchingOrNull(name, ValidWord, notWord) }

func (o *object) id(name string) string { return o.matching(name, ValidPurchaseID, notID) }

func (o *object) idOrNull(name string) *string {
	return o.matchingOrNull(name, ValidPurchaseID, notID)
}

func (o *object) flag(name string) bool {
	v := o.need(name, kindBool)
	return len(v) > 0 && v[0] == 't'
}

func (o *object) flagOrNull(name string) *bool { return flagOf(o.nullable(name, kindBool)) }

func flagOf(v []byte) *bool {
	if v == nil {
		return nil
	}
	b := v[0] == 't'
	return &b
}

func (o *object) count(name string) int64 {
	if v := o.need(name, kindNumber); v != nil {
		return o.d.count(o.at(name), v)
	}
	return 0
}

func (o *object) countOrNull(name string) *int64 {
	v := o.nullable(name, kindNumber)
	if v == nil {
		return nil
	}
	n := o.d.count(o.at(name), v)
	return &n
}

// count reads a whole number from 0. Digits are taken as they are: no detour
// over a float, which has 53 bits only.
func (d *decoder) count(path string, v []byte) int64 {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		d.fail(path, "is not a whole number of 64 bits")
		return 0
	}
	if n < 0 {
		d.fail(path, "is negative")
		return 0
	}
	return n
}

func (o *object) moment(name string) time.Time {
	if v := o.need(name, kindString); v != nil {
		return o.d.moment(o.at(name), v)
	}
	return time.Time{}
}

func (o *object) momentOrNull(name string) *time.Time {
	v := o.nullable(name, kindString)
	if v == nil {
		return nil
	}
	t := o.d.moment(o.at(name), v)
	return &t
}

func (d *decoder) moment(path string, v []byte) time.Time {
	var t time.Time
	text := unquote(v)
	// UnmarshalText is stricter about RFC 3339 than time.Parse, but for the comma.
	if err := t.UnmarshalText([]byte(text)); err != nil || strings.Contains(text, ",") {
		d.fail(path, "is not an RFC 3339 time")
		return time.Time{}
	}
	return t
}
