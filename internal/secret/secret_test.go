package secret_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/heraldbridge/herald/internal/secret"
)

const canary = `pa$$w0rd$HOME${x}#1:'"`

// TestValueNeverShows prints a secret in every way that somebody may print it by mistake.
func TestValueNeverShows(t *testing.T) {
	v := secret.New(canary)
	type exported struct {
		Token secret.Value `json:"token" yaml:"token"`
		List  []secret.Value
		Map   map[string]secret.Value
		P     *secret.Value
		Any   any
	}
	type private struct{ token secret.Value }
	type document struct{ Token secret.Value }
	outer := exported{v, []secret.Value{v}, map[string]secret.Value{"k": v}, &v, v}
	var texts []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10s", "%p"} {
		texts = append(texts, fmt.Sprintf(verb, v), fmt.Sprintf(verb, &v), fmt.Sprintf(verb, outer), fmt.Sprintf(verb, private{v}))
	}
	for _, encode := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		for _, x := range []any{v, &v, outer, private{v}} {
			out, err := encode(x)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(out))
		}
	}
	if out, err := xml.Marshal(document{v}); err != nil {
		t.Error(err)
	} else {
		texts = append(texts, string(out))
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "a", v, "b", &v, "c", outer, "d", private{v})
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "a", v, "b", &v, "c", outer, "d", private{v})
	texts = append(texts, log.String(), fmt.Sprint(v), fmt.Errorf("wrap %v", v).Error())

	for _, text := range texts {
		for _, part := range []string{"w0rd", "${x}", fmt.Sprintf("%x", "w0rd")} {
			if strings.Contains(text, part) {
				t.Errorf("%q shows %q", text, part)
			}
		}
	}
	if got := fmt.Sprintf("%v %+v %#v %s %q", v, v, v, v, v); got != strings.Repeat("[redacted] ", 4)+"[redacted]" {
		t.Errorf("printed as %s", got)
	}
	if v.Reveal() != canary {
		t.Error("the value itself has changed")
	}
}

func TestValueEqual(t *testing.T) {
	tests := []struct {
		a, b secret.Value
		want bool
	}{
		{secret.New("a"), secret.New("a"), true},
		{secret.New("a"), secret.New("b"), false},
		{secret.New("a"), secret.New("aa"), false},
		{secret.New("a"), secret.Value{}, false},
		{secret.New(""), secret.Value{}, true},
	}
	for _, tt := range tests {
		if tt.a.Equal(tt.b) != tt.want {
			t.Errorf("%q and %q: want %t", tt.a.Reveal(), tt.b.Reveal(), tt.want)
		}
	}
	if !secret.New("").IsZero() || secret.New("a").IsZero() || secret.New("").String() != "" {
		t.Error("zero is not told from a text")
	}
}
