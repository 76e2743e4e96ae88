package secret_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/heraldbridge/herald/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestB36_SecretsAreReadByteForByte(t *testing.T) {
	t.Setenv("HERALD_TEST_SECRET", canary)
	t.Setenv("x", "expanded")
	for _, s := range []secret.Source{
		secret.Env("HERALD_TEST_SECRET"),
		secret.File(write(t, canary)),
		secret.File(write(t, canary+"\n")),
		secret.Command("printf", "%s", canary),
		secret.Literal(canary),
	} {
		v, err := s.Read(t.Context())
		if err != nil || v.Reveal() != canary {
			t.Errorf("%s: %q %v", s, v.Reveal(), err)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if text := fmt.Sprintf(verb, s); strings.Contains(text, "w0rd") {
				t.Errorf("source prints as %s", text)
			}
		}
	}
}

func TestB36_UnsetVariableIsNamed(t *testing.T) {
	_, err := secret.Env("HERALD_TEST_UNSET_VARIABLE").Read(t.Context())
	if err == nil || !strings.Contains(err.Error(), "HERALD_TEST_UNSET_VARIABLE is not set") {
		t.Errorf("error %v", err)
	}
	t.Setenv("HERALD_TEST_EMPTY", "")
	if _, err := secret.Env("HERALD_TEST_EMPTY").Read(t.Context()); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("error %v", err)
	}
}

func TestFileContent(t *testing.T) {
	tests := []struct{ name, content, want, problem string }{
		{"one newline goes", "a\n", "a", ""},
		{"only one newline goes", "a\n\n", "a\n", ""},
		{"a newline of Windows goes", "a\r\n", "a", ""},
		{"a lone carriage return stays", "a\r", "a\r", ""},
		{"spaces stay", " a ", " a ", ""},
		{"several lines stay", "a\nb\n", "a\nb", ""},
		{"empty", "", "", "is empty"},
		{"only a newline", "\n", "", "is empty"},
		{"NUL", "canary\x00b", "", "NUL"},
		{"large", strings.Repeat("canary", 200_000), "", "larger"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, err := secret.File(write(t, tt.content)).Read(t.Context())
			if tt.problem == "" {
				if err != nil || v.Reveal() != tt.want {
					t.Errorf("%q %v", v.Reveal(), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.problem) || strings.Contains(err.Error(), "canary") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestFileIsReadAgain(t *testing.T) {
	path := write(t, "old")
	s := secret.File(path)
	for _, want := range []string{"old", "new"} {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if v, err := s.Read(t.Context()); err != nil || v.Reveal() != want {
			t.Errorf("%q %v", v.Reveal(), err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if _, err := secret.File(filepath.Dir(path)).Read(t.Context()); err == nil {
		t.Error("a folder was read")
	}
}

func TestCommandIsKeptUntilInvalidated(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	s := secret.Command("sh", "-c", `echo x >> "$0"; wc -l < "$0" | tr -d ' '`, count)
	read := func(want string) {
		t.Helper()
		if v, err := s.Read(t.Context()); err != nil || v.Reveal() != want {
			t.Errorf("%q %v, want %q", v.Reveal(), err, want)
		}
	}
	read("1")
	read("1")
	s.Invalidate()
	read("2")
}

func TestCommandFailures(t *testing.T) {
	for _, tt := range []struct {
		name, problem string
		argv          []string
	}{
		{"exit status", "exit status 3", []string{"sh", "-c", "echo canary; echo canary >&2; exit 3"}},
		{"no output", "is empty", []string{"true"}},
		{"no program", "no-such-program", []string{"no-such-program-of-herald"}},
		{"no shell", "is empty", []string{"printf", "%.0s", "$(echo canary)"}},
		{"endless output", "larger", []string{"sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := secret.Command(tt.argv...).Read(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.problem) || strings.Contains(err.Error(), "canary") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestCommandEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := secret.Command("sleep", "60").Read(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestSourceEqual(t *testing.T) {
	tests := []struct {
		a, b secret.Source
		want bool
	}{
		{secret.File("a"), secret.File("a"), true},
		{secret.File("a"), secret.File("b"), false},
		{secret.File("a"), secret.Env("a"), false},
		{secret.Command("a", "b"), secret.Command("a", "b"), true},
		{secret.Command("a", "b"), secret.Command("a", "c"), false},
		{secret.Literal("a"), secret.Literal("a"), true},
		{secret.Literal("a"), secret.Literal("b"), false},
		{secret.Source{}, secret.Source{}, true},
		{secret.Source{}, secret.File("a"), false},
	}
	for _, tt := range tests {
		if tt.a.Equal(tt.b) != tt.want {
			t.Errorf("%s and %s: want %t", tt.a, tt.b, tt.want)
		}
	}
	if _, err := (secret.Source{}).Read(t.Context()); err == nil || !(secret.Source{}).IsZero() {
		t.Error("no place was read")
	}
}

func TestParseSource(t *testing.T) {
	tests := []struct {
		reference any
		want      secret.Source
	}{
		{"file:/run/x", secret.File("/run/x")},
		{"file:a:b", secret.File("a:b")},
		{"file:$HOME/x", secret.File("$HOME/x")},
		{"env:A_1", secret.Env("A_1")},
		{"command:[a]", secret.Command("a")},
		{"command: [a, --b , c d]", secret.Command("a", "--b", "c d")},
		{`command:["a,b", 'it''s', "\"q\""]`, secret.Command("a,b", "it's", `"q"`)},
		{[]string{"a", "b"}, secret.Command("a", "b")},
		{[]any{"a", ""}, secret.Command("a", "")},
	}
	for _, tt := range tests {
		if got, err := secret.ParseSource(tt.reference); err != nil || !got.Equal(tt.want) {
			t.Errorf("%q: %s %v", tt.reference, got, err)
		}
	}
	for _, bad := range []any{
		"canary", "", "file:", "env:", "env:canary-1", "env:1canary", "FILE:canary", "command:", "command:canary", "command:[canary",
		"command:[]", "command:[,canary]", "command:[canary,]", "command:[a,,canary]", `command:["canary]`, `command:['canary]`,
		`command:["a" canary]`, "command:[a, [canary]]", "literal:canary", "file:canary\x00", ":canary", 5, nil, []any{"canary", 5},
		[]string{}, []string{""}, []string{"a", "canary\x00"},
	} {
		got, err := secret.ParseSource(bad)
		if err == nil || strings.Contains(err.Error(), "canary") || !got.IsZero() {
			t.Errorf("%q: %s, error %v", bad, got, err)
		}
	}
}

func FuzzParseSource(f *testing.F) {
	for _, seed := range []string{"file:/x", "env:A", `command:[a, "b", 'c']`, "command:[", "x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := secret.ParseSource(text)
		if (err == nil) == s.IsZero() {
			t.Errorf("%q: source %q, error %v", text, s, err)
		}
	})
}
