package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestScalarsAreWrittenAsTheyAreRead(t *testing.T) {
	for _, text := range []string{"0s", "500ms", "30s", "2m", "1h30m", "168h", "1h0m5s"} {
		d, _, err := parseDuration(text)
		if err != nil || d.String() != text {
			t.Errorf("%s: %s %v", text, d, err)
		}
	}
	for text, want := range map[string]string{"10GiB": "10GiB", "1024KiB": "1MiB", "5MB": "5000000B", "0B": "0B", "1 TiB": "1TiB", "1500B": "1500B"} {
		s, _, err := parseSize(text)
		if err != nil || s.String() != want {
			t.Errorf("%s: %s %v", text, s, err)
		}
	}
}

func TestNearest(t *testing.T) {
	keys := keysOf(reflect.TypeFor[Config]())
	for word, want := range map[string]string{
		"sink": "sinks", "conections": "connections", "connections-dir": "connections_dir", "Sinks": "sinks", "ntas": "nats", "http": "http",
		"x": "", "completely": "", "": "",
	} {
		if got := nearest(word, keys); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "herald.example.yaml", "minimal.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Parse("herald.yaml", data)
		if (cfg == nil) != (err != nil) {
			t.Errorf("config %v, error %v", cfg, err)
		}
		var mistakes Errors
		if err != nil && !errors.As(err, &mistakes) {
			t.Errorf("error %T", err)
		}
		if cfg != nil {
			if err := cfg.Validate(); err != nil {
				t.Errorf("parsed and yet invalid: %v", err)
			}
		}
	})
}
