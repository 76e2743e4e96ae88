package config

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/heraldbridge/herald/internal/secret"
)

// Duration is a length of time, written with a unit: 30s, 2m, 1h30m.
type Duration time.Duration

// String writes the duration as people write it: 168h, not 168h0m0s.
func (d Duration) String() string {
	text := time.Duration(d).String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// MarshalText writes the duration as it is read.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// parseDuration reads a duration. The hint, if any, says how to write what was probably meant.
func parseDuration(text string) (d Duration, hint string, err error) {
	if numeric.MatchString(text) {
		return 0, fmt.Sprintf("write %ss for seconds", text), errors.New("a time needs a unit")
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		if days, ok := strings.CutSuffix(text, "d"); ok {
			if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 100_000 {
				return 0, fmt.Sprintf("write %dh", n*24), errors.New("days are not a unit")
			}
		}
		return 0, "write a number and a unit: 500ms, 30s, 2m, 168h", fmt.Errorf("%s is not a time", quote(text))
	}
	if parsed < 0 {
		return 0, "", errors.New("a time cannot be negative")
	}
	return Duration(parsed), "", nil
}

// Size is a number of bytes, written with a unit: 512MiB, 10GiB. KB, MB, GB and TB are powers of 1000.
type Size int64

// String writes the size with the largest unit that leaves a whole number.
func (s Size) String() string {
	for _, u := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if unit := sizeUnit(u); s != 0 && int64(s)%unit == 0 {
			return strconv.FormatInt(int64(s)/unit, 10) + u
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// MarshalText writes the size as it is read.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// sizeUnit gives the bytes of a unit, and 0 for an unknown one.
func sizeUnit(name string) int64 {
	switch name {
	case "B":
		return 1
	case "KiB":
		return 1 << 10
	case "MiB":
		return 1 << 20
	case "GiB":
		return 1 << 30
	case "TiB":
		return 1 << 40
	case "KB", "kB":
		return 1e3
	case "MB":
		return 1e6
	case "GB":
		return 1e9
	case "TB":
		return 1e12
	}
	return 0
}

func parseSize(text string) (s Size, hint string, err error) {
	if numeric.MatchString(text) {
		return 0, "write MiB or GiB behind it", errors.New("a size needs a unit")
	}
	end := strings.LastIndexAny(text, "0123456789") + 1
	number, unit := text[:end], sizeUnit(strings.TrimSpace(text[end:]))
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || unit == 0 {
		return 0, "write a whole number and a unit: 512MiB, 10GiB", fmt.Errorf("%s is not a size", quote(text))
	}
	if n > math.MaxInt64/unit {
		return 0, "", fmt.Errorf("%s is too large", quote(text))
	}
	return Size(n * unit), "", nil
}

// numeric matches what YAML or its readers may take for a number.
var numeric = regexp.MustCompile(`^[-+]?(\d[\d_]*(\.\d*)?|\.\d+)([eE][-+]?\d+)?$`)

// Path is the path of a file or folder; a relative one has been joined to the folder of the configuration file.
type Path string

// Expr is a CEL expression as it is written, with its place. Whoever needs it compiles it.
type Expr struct {
	Text string
	Pos  Pos
}

// IsZero reports whether there is no expression.
func (e Expr) IsZero() bool { return e.Text == "" }

// MarshalText writes the expression as it is read.
func (e Expr) MarshalText() ([]byte, error) { return []byte(e.Text), nil }

// Text is a value that may be a secret: either plain, as written, or a reference to where it is. It prints as its
// reference or as redacted, since an address in plain text may hold a secret too.
type Text struct {
	Plain  string
	Source secret.Source
}

// PlainText makes a Text that is no reference.
func PlainText(text string) Text { return Text{Plain: text} }

// IsZero reports whether there is neither text nor reference.
func (t Text) IsZero() bool { return t.Plain == "" && t.Source.IsZero() }

// Read gives the text, from its source if it is a reference.
func (t Text) Read(ctx context.Context) (secret.Value, error) {
	if t.Source.IsZero() {
		return secret.New(t.Plain), nil
	}
	return t.Source.Read(ctx)
}

// String names the source, or shows that there is a text.
func (t Text) String() string {
	if t.Source.IsZero() {
		return secret.New(t.Plain).String()
	}
	return t.Source.String()
}

// GoString answers %#v like [Text.String].
func (t Text) GoString() string { return t.String() }

// MarshalText answers encoders like [Text.String].
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// quote shows a piece of the file in a message, shortened.
func quote(text string) string {
	const most = 60
	runes := []rune(text)
	if len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	return strconv.Quote(text)
}
