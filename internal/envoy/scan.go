package envoy

import (
	"encoding/json"
	"unicode/utf8"
)

// kind is a set of JSON types.
type kind uint8

const (
	kindNull kind = 1 << iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

func (k kind) String() string {
	switch k {
	case kindNull:
		return "null"
	case kindBool:
		return "a boolean"
	case kindNumber:
		return "a number"
	case kindString:
		return "text"
	case kindArray:
		return "a list"
	case kindObject:
		return "an object"
	default:
		return "of a permitted type"
	}
}

// value is where a JSON value stands in its text.
type value struct {
	from, to int32
	past     int32 // the index in the list behind all that stands inside of it
	kind     kind
	escaped  bool // text with a backslash in it
	named    bool // a member's name that the contract has
}

// document is JSON text and the list of its values, in the order of the text: an
// object is followed by the name and the value of each member, a list by its
// elements. The text is walked once, and what nobody asks for is never copied.
type document struct {
	text   []byte
	values []value
}

// root is the index of the outermost value, none of no value.
const (
	root = 0
	none = -1
)

// maxDepth is how deep values may lie in each other, as in encoding/json.
const maxDepth = 10000

// scan takes a new text and tells whether it is one JSON value.
func (d *document) scan(text []byte) bool {
	d.text, d.values = text, d.values[:0]
	i := d.value(d.space(0), 0)
	return i > 0 && d.space(i) == len(text)
}

// space gives the index of the next byte that is no white space.
func (d *document) space(i int) int {
	for i < len(d.text) && (d.text[i] == ' ' || d.text[i] == '\n' || d.text[i] == '\t' || d.text[i] == '\r') {
		i++
	}
	return i
}

// at tells whether c is the byte at i.
func (d *document) at(i int, c byte) bool { return i < len(d.text) && d.text[i] == c }

// value lists the value that begins at i and all inside of it. It gives the index
// behind it, none if there is no value.
func (d *document) value(i, depth int) int {
	if i >= len(d.text) {
		return none
	}
	v := len(d.values)
	d.values = append(d.values, value{from: int32(i)})
	var (
		k   kind
		end int
	)
	switch d.text[i] {
	case '"':
		k, end = kindString, d.string(i, v)
	case '{':
		k, end = kindObject, d.inside(i, depth, '}')
	case '[':
		k, end = kindArray, d.inside(i, depth, ']')
	case 't':
		k, end = kindBool, d.literal(i, "true")
	case 'f':
		k, end = kindBool, d.literal(i, "false")
	case 'n':
		k, end = kindNull, d.literal(i, "null")
	default:
		k, end = kindNumber, d.number(i)
	}
	own := &d.values[v]
	own.kind, own.to, own.past = k, int32(end), int32(len(d.values))
	return end
}

// inside lists what stands in the object or list that begins at i.
func (d *document) inside(i, depth int, closing byte) int {
	if depth >= maxDepth {
		return none
	}
	if i = d.space(i + 1); d.at(i, closing) {
		return i + 1
	}
	for {
		if closing == '}' {
			if !d.at(i, '"') {
				return none
			}
			if i = d.value(i, depth+1); i < 0 {
				return none
			}
			if i = d.space(i); !d.at(i, ':') {
				return none
			}
			i = d.space(i + 1)
		}
		if i = d.value(i, depth+1); i < 0 {
			return none
		}
		switch i = d.space(i); {
		case d.at(i, closing):
			return i + 1
		case !d.at(i, ','):
			return none
		}
		i = d.space(i + 1)
	}
}

func (d *document) literal(i int, w string) int {
	if len(d.text)-i < len(w) || string(d.text[i:i+len(w)]) != w {
		return none
	}
	return i + len(w)
}

// string gives the index behind the text that begins at i, and notes escapes at
// the value v.
func (d *document) string(i, v int) int {
	for i++; i < len(d.text); i++ {
		switch c := d.text[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return none
		case c == '\\':
			d.values[v].escaped = true
			if i = d.escape(i + 1); i < 0 {
				return none
			}
		}
	}
	return none
}

// escape gives the index of the last byte of an escape whose backslash stands
// before i.
func (d *document) escape(i int) int {
	if i >= len(d.text) {
		return none
	}
	switch d.text[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
		for range 4 {
			i++
			if i >= len(d.text) || !hexDigit(d.text[i]) {
				return none
			}
		}
		return i
	default:
		return none
	}
}

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func (d *document) number(i int) int {
	if d.at(i, '-') {
		i++
	}
	whole := d.digits(i)
	if whole == i || whole > i+1 && d.text[i] == '0' {
		return none
	}
	if i = whole; d.at(i, '.') {
		fraction := d.digits(i + 1)
		if fraction == i+1 {
			return none
		}
		i = fraction
	}
	if d.at(i, 'e') || d.at(i, 'E') {
		i++
		if d.at(i, '+') || d.at(i, '-') {
			i++
		}
		power := d.digits(i)
		if power == i {
			return none
		}
		i = power
	}
	return i
}

// digits gives the index behind the digits that begin at i.
func (d *document) digits(i int) int {
	for i < len(d.text) && d.text[i] >= '0' && d.text[i] <= '9' {
		i++
	}
	return i
}

// raw is the value as it stands in the text.
func (d *document) raw(v int) []byte { return d.text[d.values[v].from:d.values[v].to] }

// past is the index behind a value and all inside of it. The members of an
// object v are thus for n := v + 1; n < d.past(v); n = d.past(n+1), each with its
// name at n and its value at n+1.
func (d *document) past(v int) int { return int(d.values[v].past) }

// elements calls f with each element of a list; none has none.
func (d *document) elements(v int, f func(element int)) {
	if v == none {
		return
	}
	for e := v + 1; e < d.past(v); e = d.past(e) {
		f(e)
	}
}

// is tells whether a text reads so.
func (d *document) is(v int, s string) bool {
	if d.values[v].escaped {
		return d.unquote(v) == s
	}
	inner := d.raw(v)
	return len(inner) == len(s)+2 && string(inner[1:len(inner)-1]) == s
}

// unquote gives a text of its own, with invalid UTF-8 replaced.
func (d *document) unquote(v int) string {
	raw := d.raw(v)
	if inner := raw[1 : len(raw)-1]; !d.values[v].escaped && utf8.Valid(inner) {
		return string(inner)
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "" // cannot be: it was scanned as a text
	}
	return s
}
