// Package secret holds values that must not be seen, and the places they come from.
//
// A [Value] can be handed around, logged, encoded or printed by mistake: every such way shows "[redacted]". Only
// [Value.Reveal] gives the text, so a search for that name finds every place that can leak it. A [Source] says where
// a value comes from (a file, an environment variable, a command) and reads it when asked; it names the place and
// never the value. [Redact] and [CleanError] take secrets out of errors made by other people's code.
package secret

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// Redacted is what is shown in the place of a secret.
const Redacted = "[redacted]"

// Value is a secret text. The zero Value holds none. Values cannot be compared with ==; use [Value.Equal].
//
// The text sits behind a pointer because fmt cannot call methods on unexported fields: a Value inside somebody
// else's private field then prints as an address and not as its text.
type Value struct {
	_    [0]func()
	text *string
}

// New makes a Value from a text.
func New(text string) Value {
	if text == "" {
		return Value{}
	}
	return Value{text: &text}
}

// Reveal gives the text itself. Call it only where the secret is used, as late as possible.
func (v Value) Reveal() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

// IsZero reports whether the Value holds no text.
func (v Value) IsZero() bool { return v.text == nil }

// Equal compares two Values in a time that depends on neither text nor length.
func (v Value) Equal(other Value) bool {
	a, b := sha256.Sum256([]byte(v.Reveal())), sha256.Sum256([]byte(other.Reveal()))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// String shows that there is a secret, or nothing for a zero Value; never the text.
func (v Value) String() string {
	if v.IsZero() {
		return ""
	}
	return Redacted
}

// GoString answers %#v like [Value.String].
func (v Value) GoString() string { return v.String() }

// Format answers every fmt verb, those for numbers and bytes too, like [Value.String].
func (v Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, v.String()) }

// LogValue answers slog like [Value.String].
func (v Value) LogValue() slog.Value { return slog.StringValue(v.String()) }

// MarshalText answers text encoders, JSON map keys included, like [Value.String].
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// MarshalJSON answers JSON like [Value.String].
func (v Value) MarshalJSON() ([]byte, error) { return []byte(`"` + v.String() + `"`), nil }

// MarshalYAML answers YAML encoders like [Value.String].
func (v Value) MarshalYAML() (any, error) { return v.String(), nil }
