package route

import (
	"errors"
	"fmt"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// Silences are compiled silences. They postpone alarms and touch nothing else.
type Silences []silence

type silence struct {
	id    string
	match *Program
	until time.Time
}

// CompileSilences compiles silences. One that does not compile is left out and
// named in the error, so that the others hold all the same.
func CompileSilences(list []events.Silence) (Silences, error) {
	if len(list) == 0 {
		return nil, nil
	}
	c, err := newCompiler()
	if err != nil {
		return nil, err
	}
	var out Silences
	var all []error
	for _, s := range list {
		p, err := c.compile("", "match", s.Match)
		if err != nil {
			all = append(all, fmt.Errorf("compile silence %s: %w", s.ID, err))
			continue
		}
		out = append(out, silence{id: s.ID, match: p, until: s.Until})
	}
	return out, errors.Join(all...)
}

// until is the moment at which the last silence about the event ends; zero when
// there is none. A silence whose expression cannot be worked out does not hold:
// a repeat beats silence.
func (s Silences) until(e events.Event, now time.Time) time.Time {
	var end time.Time
	for _, one := range s {
		if !one.until.After(now) || !one.until.After(end) {
			continue
		}
		if yes, err := one.match.Match(e, now); err == nil && yes {
			end = one.until
		}
	}
	return end
}
