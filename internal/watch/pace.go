package watch

import "time"

// Constants of reading. What an operator may turn is in Policy.
const (
	holdWait     = 45 * time.Second // the longest hold that Envoy grants
	freshFor     = 5 * time.Second  // a reply older than this says nothing about now
	readEvery    = 15 * time.Second // needs_details and needs_answer where Envoy checks out
	strangeEvery = time.Minute      // a state that no one has heard of
	listEvery    = 5 * time.Minute
	slowest      = 6 * time.Hour
)

// lookPace is the time between looks at a purchase that has been in its state for so long.
func lookPace(inState, fastest time.Duration) time.Duration {
	switch {
	case inState < 2*time.Minute:
		return fastest
	case inState < 15*time.Minute:
		return max(fastest, 15*time.Second)
	case inState < 6*time.Hour:
		return max(fastest, time.Minute)
	default:
		return max(fastest, 5*time.Minute)
	}
}

// slowPace is the time between reads of a purchase that ended so long ago and is not settled: one minute, growing with
// age to half an hour; after a day to six hours.
func slowPace(age time.Duration) time.Duration {
	if age < 24*time.Hour {
		return min(max(age, time.Minute), 30*time.Minute)
	}
	return min(age/8, slowest)
}

// listPace is the time between lists while a purchase that was ready is missing from looks for so long: only a list can
// say that it has ended.
func listPace(missing time.Duration) time.Duration {
	switch {
	case missing < 2*time.Minute:
		return 15 * time.Second
	case missing < 15*time.Minute:
		return time.Minute
	default:
		return listEvery
	}
}

// earlyReply tells whether a hold came back so soon that it cannot be told from a far side that does not hold.
func earlyReply(took, wait time.Duration) bool {
	return took < 2*time.Second || took < wait/4
}

// earlyPause is the wait after so many early replies in a row.
func earlyPause(early int) time.Duration {
	switch {
	case early <= 0:
		return 0
	case early >= 4:
		return 15 * time.Second
	default:
		return time.Second << early
	}
}

// doubling is base, doubled for each earlier time, up to limit.
func doubling(base, limit time.Duration, earlier int) time.Duration {
	for range earlier {
		if base >= limit/2 {
			return limit
		}
		base *= 2
	}
	return min(base, limit)
}

// nearDeadline tells whether something is about to run out or has just done so.
func nearDeadline(deadline, now time.Time) bool {
	return !deadline.IsZero() && !now.Before(deadline.Add(-15*time.Second)) && now.Before(deadline.Add(time.Minute))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
