package words

import "time"

// Age says how long something lasts, for a person: two units at most, rounded
// down. Nothing and less is "less than a minute".
func Age(d time.Duration) string {
	minutes := int64(d / time.Minute)
	hours, days := minutes/60, minutes/(24*60)
	switch {
	case minutes < 1:
		return "less than a minute"
	case hours < 1:
		return count(minutes, "minute")
	case days < 1:
		return both(count(hours, "hour"), minutes%60, "minute")
	}
	return both(count(days, "day"), hours%24, "hour")
}

func both(first string, n int64, unit string) string {
	if n == 0 {
		return first
	}
	return first + " and " + count(n, unit)
}

func count(n int64, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return digits(n) + " " + unit + "s"
}

// relative says a moment as seen from now: "24 minutes ago", "in 3 hours".
func relative(at, now time.Time) string {
	if d := at.Sub(now); d > 0 {
		return "in " + Age(d)
	}
	return Age(now.Sub(at)) + " ago"
}
