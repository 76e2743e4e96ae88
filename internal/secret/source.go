package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	// maxSize bounds what is read from a file or a command, in bytes.
	maxSize = 1 << 20
	// commandTimeout bounds one run of a command, whatever the caller's context allows.
	commandTimeout = 10 * time.Second
)

// Kind says what sort of place a [Source] names.
type Kind string

// The kinds of a [Source].
const (
	KindNone    Kind = ""
	KindFile    Kind = "file"
	KindEnv     Kind = "env"
	KindCommand Kind = "command"
	KindLiteral Kind = "literal"
)

// Source names the place that a secret comes from. The zero Source names none. A copy shares the cache of its
// original. It is safe for use by many goroutines at once.
type Source struct {
	_ [0]func()
	p *place
}

// place is behind a pointer for the same reason as the text of a Value: arguments of a command may be secret too.
type place struct {
	kind    Kind
	name    string   // path or variable
	argv    []string // command
	literal Value

	turn   chan struct{} // held while the command runs or the cache is touched
	cached Value
}

// File names a file. Its content is read again each time; one newline at its end does not belong to the secret.
func File(path string) Source { return Source{p: &place{kind: KindFile, name: path}} }

// Env names an environment variable. Its content is used byte for byte and never expanded.
func Env(name string) Source { return Source{p: &place{kind: KindEnv, name: name}} }

// Command names a program and its arguments, run without a shell. What it prints is the secret, without one newline
// at the end, and is kept until [Source.Invalidate].
func Command(argv ...string) Source {
	return Source{p: &place{kind: KindCommand, argv: slices.Clone(argv), turn: make(chan struct{}, 1)}}
}

// Literal is a Source whose secret is the given text. It is meant for tests and for the demonstration.
func Literal(text string) Source { return Source{p: &place{kind: KindLiteral, literal: New(text)}} }

// Kind says what sort of place is named.
func (s Source) Kind() Kind {
	if s.p == nil {
		return KindNone
	}
	return s.p.kind
}

// IsZero reports whether no place is named.
func (s Source) IsZero() bool { return s.p == nil }

// Path gives the path of a file Source, and "" for any other.
func (s Source) Path() string {
	if s.Kind() != KindFile {
		return ""
	}
	return s.p.name
}

// String names the place (path, variable, program) and never the value or the arguments of a command.
func (s Source) String() string {
	switch s.Kind() {
	case KindFile, KindEnv:
		return string(s.p.kind) + ":" + s.p.name
	case KindCommand:
		return "command:" + s.p.argv[0]
	case KindLiteral:
		return "literal"
	case KindNone:
	}
	return ""
}

// GoString answers %#v like [Source.String].
func (s Source) GoString() string { return s.String() }

// MarshalText answers text, JSON and YAML encoders like [Source.String].
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Equal reports whether both name the same place in the same words. It reads no secret, except that two literals are
// compared by their text.
func (s Source) Equal(other Source) bool {
	if s.p == other.p {
		return true
	}
	if s.p == nil || other.p == nil {
		return false
	}
	return s.p.kind == other.p.kind && s.p.name == other.p.name &&
		slices.Equal(s.p.argv, other.p.argv) && s.p.literal.Equal(other.p.literal)
}

// Invalidate makes the next Read of a command run it again. Files and variables are read anew in any case.
func (s Source) Invalidate() {
	if s.Kind() != KindCommand {
		return
	}
	s.p.turn <- struct{}{}
	s.p.cached = Value{}
	<-s.p.turn
}

// Read gives the secret. No place, an unset variable, a file or an output that is empty, holds a NUL byte or is larger than
// 1 MiB, and a command that fails or runs for more than 10 s are errors; they name the place and never the value.
func (s Source) Read(ctx context.Context) (Value, error) {
	switch s.Kind() {
	case KindFile:
		return s.p.readFile()
	case KindEnv:
		return s.p.readEnv()
	case KindCommand:
		return s.p.readCommand(ctx)
	case KindLiteral:
		if s.p.literal.IsZero() {
			return Value{}, errors.New("read secret: the literal is empty")
		}
		return s.p.literal, nil
	case KindNone:
	}
	return Value{}, errors.New("read secret: no place is named")
}

func (p *place) readFile() (Value, error) {
	// A named pipe would block on opening and cannot be read again, so only regular files are opened.
	info, err := os.Stat(p.name)
	if err != nil {
		return Value{}, fmt.Errorf("read secret: %w", err)
	}
	if !info.Mode().IsRegular() {
		return Value{}, fmt.Errorf("read secret: file %s is not a regular file", p.name)
	}
	file, err := os.Open(p.name)
	if err != nil {
		return Value{}, fmt.Errorf("read secret: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return Value{}, fmt.Errorf("read secret: %w", err)
	}
	return accept(content, "file "+p.name)
}

func (p *place) readEnv() (Value, error) {
	text, ok := os.LookupEnv(p.name)
	if !ok {
		return Value{}, fmt.Errorf("read secret: environment variable %s is not set", p.name)
	}
	if text == "" {
		return Value{}, fmt.Errorf("read secret: environment variable %s is empty", p.name)
	}
	return New(text), nil
}

func (p *place) readCommand(ctx context.Context) (Value, error) {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return Value{}, fmt.Errorf("read secret: wait for command %s: %w", p.argv[0], ctx.Err())
	}
	defer func() { <-p.turn }()
	if !p.cached.IsZero() {
		return p.cached, nil
	}
	value, err := run(ctx, p.argv)
	if err != nil {
		return Value{}, err
	}
	p.cached = value
	return value, nil
}

// run runs a command once. Its standard error is counted and not shown: it may well repeat the secret.
func run(ctx context.Context, argv []string) (Value, error) {
	limited, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	out, complaint := &bounded{limit: maxSize + 1}, &bounded{limit: 0}
	cmd := exec.CommandContext(limited, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, complaint
	cmd.WaitDelay = time.Second // a grandchild may keep the pipes open
	err := cmd.Run()
	if limited.Err() != nil {
		return Value{}, fmt.Errorf("read secret: command %s did not end in time: %w", argv[0], limited.Err())
	}
	if err != nil {
		return Value{}, fmt.Errorf("read secret: command %s (%d bytes on standard error, not shown): %w",
			argv[0], complaint.seen, err)
	}
	return accept(out.buf.Bytes(), "output of command "+argv[0])
}

// accept turns what was read into a Value, or says what is wrong with it.
func accept(content []byte, from string) (Value, error) {
	if len(content) > maxSize {
		return Value{}, fmt.Errorf("read secret: %s is larger than %d bytes", from, maxSize)
	}
	if bytes.IndexByte(content, 0) >= 0 {
		return Value{}, fmt.Errorf("read secret: %s holds a NUL byte", from)
	}
	text := strings.TrimSuffix(string(content), "\n")
	if len(text) < len(content) {
		text = strings.TrimSuffix(text, "\r")
	}
	if text == "" {
		return Value{}, fmt.Errorf("read secret: %s is empty", from)
	}
	return New(text), nil
}

// bounded keeps the first bytes written to it, counts all of them and refuses none, so that the writer can end.
type bounded struct {
	buf   bytes.Buffer
	limit int
	seen  int64
}

func (b *bounded) Write(p []byte) (int, error) {
	b.seen += int64(len(p))
	if room := b.limit - b.buf.Len(); room > 0 {
		b.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
