package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"text/tabwriter"
)

// sense tells which way is better.
type sense string

const (
	atLeast sense = ">="
	atMost  sense = "<="
)

// row is one measured figure beside its floor. Figures are medians over the
// turns; the ratio is that of the medians.
type row struct {
	Benchmark string    `json:"benchmark"`
	Figure    string    `json:"figure"`
	Unit      string    `json:"unit"`
	Herald    float64   `json:"herald"`
	Against   string    `json:"against"` // what the floor is
	Floor     float64   `json:"floor"`
	Ratio     float64   `json:"ratio"`
	Sense     sense     `json:"sense,omitempty"`
	Target    float64   `json:"target,omitempty"` // of the ratio; zero: none
	Met       *bool     `json:"met,omitempty"`
	Turns     int       `json:"turns"`
	All       []float64 `json:"all_herald,omitempty"` // turn by turn
	AllFloor  []float64 `json:"all_floor,omitempty"`
}

// report is the outcome of a run.
type report struct {
	Short   bool     `json:"short"`
	CPUs    int      `json:"cpus"`
	Go      string   `json:"go"`
	System  string   `json:"system"`
	Seconds float64  `json:"seconds"`
	Rows    []row    `json:"rows"`
	Notes   []string `json:"notes,omitempty"`
	Errors  []string `json:"errors,omitempty"`
}

func newReport(short bool) *report {
	return &report{Short: short, CPUs: runtime.NumCPU(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
}

// figures are what one figure came to, turn by turn.
type figures struct{ herald, floor []float64 }

// add completes a row from its figures and keeps it.
func (r *report) add(one row, f figures) {
	one.Herald, one.Floor, one.Turns = mid(f.herald), mid(f.floor), len(f.herald)
	one.All, one.AllFloor = f.herald, f.floor
	if one.Floor != 0 {
		one.Ratio = one.Herald / one.Floor
	}
	if one.Target != 0 {
		met := one.Ratio >= one.Target
		if one.Sense == atMost {
			met = one.Ratio <= one.Target
		}
		one.Met = &met
	}
	r.Rows = append(r.Rows, one)
}

func (r *report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (r *report) print(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	fmt.Fprintf(w, "\n%s, %s, %d CPUs, %.0f s\n\n", r.Go, r.System, r.CPUs, r.Seconds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "BENCHMARK\tFIGURE\tUNIT\tHERALD\tFLOOR\tRATIO\tTARGET\t\tAGAINST")
	for _, one := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.2f\t%s\t%s\t%s\n", one.Benchmark, one.Figure, one.Unit,
			number(one.Herald), number(one.Floor), one.Ratio, one.target(), one.verdict(), one.Against)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note:", n)
	}
	for _, e := range r.Errors {
		fmt.Fprintln(w, "error:", e)
	}
	return nil
}

func (o row) target() string {
	if o.Target == 0 {
		return "-"
	}
	return fmt.Sprintf("%s %.2f", o.Sense, o.Target)
}

func (o row) verdict() string {
	switch {
	case o.Met == nil:
		return ""
	case *o.Met:
		return "met"
	default:
		return "MISSED"
	}
}

// number writes a figure with three digits that count, and thousands apart.
func number(v float64) string {
	if v == 0 {
		return "0"
	}
	if math.Abs(v) < 1000 {
		digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
		return fmt.Sprintf("%.*f", digits, v)
	}
	text := fmt.Sprintf("%.0f", v)
	var parts []string
	for len(text) > 3 {
		parts = append([]string{text[len(text)-3:]}, parts...)
		text = text[:len(text)-3]
	}
	return text + "," + strings.Join(parts, ",")
}
