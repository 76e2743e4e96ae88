package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// Line says an event to a person at a terminal, in one line without a time.
func Line(e events.Event) string {
	switch {
	case e.Notice != nil:
		return fmt.Sprintf("%s  %s: %s", e.Notice.Connection, e.Notice.Kind, e.Notice.Text)
	case e.Purchase == nil:
		return e.ID
	}
	p := e.Purchase
	var b strings.Builder
	fmt.Fprintf(&b, "%-22s %12s  ", clip(p.Merchant.Name, 22), p.Amount.Display)
	if p.Previous != nil && p.Previous.Situation != p.Situation {
		fmt.Fprintf(&b, "%s -> ", p.Previous.Situation)
	}
	fmt.Fprintf(&b, "%s, money %s", p.Situation, p.Money)
	if p.Unsettled {
		b.WriteString(", unsettled")
	}
	if p.Overdue != nil {
		fmt.Fprintf(&b, ", overdue since %s", p.Overdue.At.UTC().Format(time.TimeOnly))
	}
	if p.Reading.Cause != events.CauseRevision {
		fmt.Fprintf(&b, " (%s)", p.Reading.Cause)
	}
	fmt.Fprintf(&b, "  [%s rev %d]", short(e.Subject), p.Reading.Revision)
	return b.String()
}

// clip cuts to n characters and shows that it did.
func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// short keeps enough of a purchase id to be recognised.
func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return id
}
