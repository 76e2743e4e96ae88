package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// line is one line of a plot.
type line struct {
	name string
	unit string
	of   func(sample) float64
}

// soakLines are what has to stay flat.
func soakLines() []line {
	var out []line
	for _, p := range []string{"watcher", "notifier"} {
		out = append(out,
			line{p + ", resident memory", "MiB", func(s sample) float64 { return float64(s.RSS[p]) / (1 << 20) }},
			line{p + ", goroutines", "", func(s sample) float64 { return float64(s.Routines[p]) }},
			line{p + ", open files", "", func(s sample) float64 { return float64(s.Files[p]) }})
	}
	return append(out,
		line{"consumers in NATS", "", func(s sample) float64 { return float64(s.Consumers) }},
		line{"changes not received yet", "", func(s sample) float64 { return float64(s.Behind) }})
}

// tell prints the second quarter beside the last one, writes the plot, and fails if the receiver saw something wrong. The
// first quarter is left out: caches fill in it.
func (s *soak) tell() error {
	n := len(s.samples)
	if n < 8 {
		return fmt.Errorf("only %d samples: run it for longer", n)
	}
	fmt.Printf("%-28s %12s %12s %8s\n", "", "2nd quarter", "last quarter", "ratio")
	for _, l := range soakLines() {
		before, after := mean(s.samples[n/4:n/2], l.of), mean(s.samples[3*n/4:], l.of)
		ratio := 1.0
		if before > 0 {
			ratio = after / before
		}
		fmt.Printf("%-28s %12.1f %12.1f %8.3f\n", l.name+" "+l.unit, before, after, ratio)
	}
	last := s.samples[n-1]
	fmt.Printf("%d changes in %.0f s, %d received; CPU seconds: watcher %.0f, notifier %.0f\n",
		last.Changes, last.At, last.Received, last.CPU["watcher"], last.CPU["notifier"])
	if s.b.o.plot != "" {
		if err := os.WriteFile(s.b.o.plot, []byte(s.svg()), 0o644); err != nil { //nolint:gosec // a picture for everybody
			return fmt.Errorf("write the plot: %w", err)
		}
	}
	if len(s.hook.wrong) > 0 {
		return fmt.Errorf("the receiver saw: %s", strings.Join(s.hook.wrong, "; "))
	}
	return nil
}

func mean(list []sample, of func(sample) float64) float64 {
	sum := 0.0
	for _, s := range list {
		sum += of(s)
	}
	return sum / float64(len(list))
}

// svg draws each line in a panel of its own, from zero.
func (s *soak) svg() string {
	const width, height, left, top, gap = 720, 90, 170, 20, 30
	lines := soakLines()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		left+width+20, top+len(lines)*(height+gap)+20)
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	end := s.samples[len(s.samples)-1].At
	for i, l := range lines {
		y := float64(top + i*(height+gap))
		high := l.of(slices.MaxFunc(s.samples, func(a, b sample) int {
			if l.of(a) < l.of(b) {
				return -1
			}
			return 1
		}))
		high = max(high*1.15, 1)
		fmt.Fprintf(&b, `<text x="10" y="%.0f">%s</text><text x="%d" y="%.0f" text-anchor="end" fill="#555">%.0f %s</text>`+"\n",
			y+height/2, l.name, left+width, y-2, high, l.unit)
		fmt.Fprintf(&b, `<rect x="%d" y="%.0f" width="%d" height="%d" fill="none" stroke="#bbb"/>`+"\n", left, y, width, height)
		b.WriteString(`<polyline fill="none" stroke="#1a5fb4" stroke-width="1.5" points="`)
		for _, one := range s.samples {
			fmt.Fprintf(&b, "%.1f,%.1f ", left+one.At/end*width, y+height-l.of(one)/high*height)
		}
		b.WriteString(`"/>` + "\n")
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#555">0 to %.0f minutes, %.0f changes a second, %d connections</text>`+"\n</svg>\n",
		left, top+len(lines)*(height+gap)-8, end/60, s.rate, soakUsers)
	return b.String()
}
