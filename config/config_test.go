package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files and the schema anew")

// golden compares with a file, or writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestMistakes loads one file per mistake and compares what is said about it.
func TestMistakes(t *testing.T) {
	t.Chdir("testdata")
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(file, ".yaml"), func(t *testing.T) {
			cfg, err := Load(file)
			var mistakes Errors
			if !errors.As(err, &mistakes) || len(mistakes) == 0 || cfg != nil {
				t.Fatalf("config %v, error %v", cfg, err)
			}
			text := err.Error() + "\n"
			if strings.Contains(text, "canary") {
				t.Errorf("a secret is shown:\n%s", text)
			}
			for _, m := range mistakes {
				if m.Problem == "" || m.File != file {
					t.Errorf("incomplete: %+v", m)
				}
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden", text)
		})
	}
}
