package main

import (
	"fmt"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// ago says how long something has lasted; a dash for never.
func ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return span(time.Since(t))
}

func span(d time.Duration) string {
	switch {
	case d < 0:
		return "in " + span(-d)
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// toneOf is the tone of a situation.
func toneOf(s events.Situation, unsettled bool) tone {
	switch {
	case s == events.SituationNeedsSupport:
		return bad
	case s == events.SituationConfirming, unsettled:
		return warn
	case s == events.SituationDone:
		return good
	case s == events.SituationStopped:
		return faint
	}
	return plain
}
