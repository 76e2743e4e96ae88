package dedupe

import (
	"cmp"
	"slices"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// sortSilences decodes stored silences, sorts them by end and id, and names
// those that are over.
func sortSilences(values [][]byte, now time.Time) (current []events.Silence, over []string, err error) {
	for _, data := range values {
		s, err := decode[events.Silence](data)
		if err != nil {
			return nil, nil, err
		}
		if !now.Before(s.Until) {
			over = append(over, s.ID)
			continue
		}
		current = append(current, s)
	}
	slices.SortFunc(current, func(a, b events.Silence) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.ID, b.ID))
	})
	return current, over, nil
}
