package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
)

// tone is how much a line wants to be seen.
type tone string

// The tones, as terminals write them.
const (
	plain tone = ""
	bad   tone = "\x1b[31m"
	warn  tone = "\x1b[33m"
	good  tone = "\x1b[32m"
	faint tone = "\x1b[2m"
	reset      = "\x1b[0m"
)

// table is lines in columns.
type table struct {
	w     io.Writer
	buf   bytes.Buffer
	tab   *tabwriter.Writer
	tones []tone
}

func newTable(w io.Writer, head ...string) *table {
	t := &table{w: w}
	t.tab = tabwriter.NewWriter(&t.buf, 0, 0, 2, ' ', 0)
	t.line(faint, head...)
	return t
}

func (t *table) line(tn tone, cells ...string) {
	for i, c := range cells {
		cells[i] = printable(c)
	}
	_, _ = fmt.Fprintln(t.tab, strings.Join(cells, "\t")) // into memory
	t.tones = append(t.tones, tn)
}

func (t *table) add(tn tone, cells ...string) { t.line(tn, cells...) }

func (t *table) empty() bool { return len(t.tones) == 1 }

// flush aligns the lines first and colours them after, since colours have no width.
func (t *table) flush() error {
	if err := t.tab.Flush(); err != nil {
		return fmt.Errorf("align columns: %w", err)
	}
	colours := coloured(t.w)
	for i, line := range strings.Split(strings.TrimSuffix(t.buf.String(), "\n"), "\n") {
		if err := paint(t.w, colours, t.tones[i], strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

// say prints one line in a tone.
func say(w io.Writer, tn tone, format string, args ...any) {
	_ = paint(w, coloured(w), tn, printable(fmt.Sprintf(format, args...)))
}

func paint(w io.Writer, colours bool, tn tone, line string) error {
	if colours && tn != plain {
		line = string(tn) + line + reset
	}
	if _, err := fmt.Fprintln(w, line); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// coloured tells whether colours are for a person at a terminal who wants them.
func coloured(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// printable keeps what came from outside from speaking to the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return '·'
		}
		return r
	}, s)
}

func printJSON(c *cobra.Command, v any) error {
	enc := json.NewEncoder(c.OutOrStdout())
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
