package envoy

import (
	"bytes"
	"encoding/json"
)

// The functions here walk JSON in place: they hand out slices of the reply's
// buffer, so that what is not decoded is never copied and goes when the buffer is
// wiped. They expect JSON that json.Valid has passed.

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

func kindOf(v []byte) kind {
	if len(v) == 0 {
		return 0
	}
	switch v[0] {
	case 'n':
		return kindNull
	case 't', 'f':
		return kindBool
	case '"':
		return kindString
	case '[':
		return kindArray
	case '{':
		return kindObject
	default:
		return kindNumber
	}
}

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

func trimSpace(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }

// next gives the index of the next byte that is no white space.
func next(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// end gives the index behind the value that begins at i.
func end(b []byte, i int) int {
	switch b[i] {
	case '"':
		return endOfString(b, i)
	case '{', '[':
		depth := 0
		for i < len(b) {
			switch b[i] {
			case '"':
				i = endOfString(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			i++
			if depth == 0 {
				return i
			}
		}
		return i
	}
	for ; i < len(b); i++ {
		switch b[i] {
		case ',', ']', '}', ' ', '\t', '\r', '\n':
			return i
		}
	}
	return i
}

func endOfString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// member is one member of an object, in the buffer.
type member struct {
	key   []byte // with its quotes
	value []byte
	named bool // the contract names it
}

func (m *member) is(name string) bool {
	inner := m.key[1 : len(m.key)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == name
	}
	return unquote(m.key) == name
}

// members splits an object.
func members(obj []byte) []member {
	ms := make([]member, 0, 32)
	for i := next(obj, 1); i < len(obj) && obj[i] == '"'; {
		k := endOfString(obj, i)
		v := next(obj, next(obj, k)+1) // behind the colon
		e := end(obj, v)
		ms = append(ms, member{key: obj[i:k], value: obj[v:e]})
		i = next(obj, e)
		if i < len(obj) && obj[i] == ',' {
			i = next(obj, i+1)
		}
	}
	return ms
}

// elements calls f with each element of an array.
func elements(arr []byte, f func(value []byte)) {
	for i := next(arr, 1); i < len(arr) && arr[i] != ']'; {
		e := end(arr, i)
		f(arr[i:e])
		i = next(arr, e)
		if i < len(arr) && arr[i] == ',' {
			i = next(arr, i+1)
		}
	}
}

// unquote gives a text of its own, with invalid UTF-8 replaced.
func unquote(v []byte) string {
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return "" // cannot be: v is a valid JSON string
	}
	return s
}
