// Package backoff computes how long to wait before another try. It only computes: it starts nothing and sleeps
// nowhere, and time and chance are handed in, so that its callers can be tested without waiting.
package backoff

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is the longest wait that callers should take from a Retry-After header.
const MaxRetryAfter = time.Hour

// Policy describes delays with full jitter: a random time between nothing and a ceiling that doubles from Base to Max.
// Random over the whole span, since many clients that failed together must not come back together.
type Policy struct {
	Base time.Duration  // ceiling of the first delay; zero or less: 1 s
	Max  time.Duration  // ceiling of every delay; less than Base: Base
	Rand func() float64 // a number in [0, 1); nil: math/rand/v2
}

// Delay is the wait after the given number of failed tries, counted from 0, in [0, ceiling). A negative number counts
// as 0.
func (p Policy) Delay(attempt int) time.Duration {
	return time.Duration(chance(p.Rand) * float64(p.Ceiling(attempt)))
}

// Ceiling is the longest wait that [Policy.Delay] can give for the same number of failed tries.
func (p Policy) Ceiling(attempt int) time.Duration {
	base := p.Base
	if base <= 0 {
		base = time.Second
	}
	limit := max(p.Max, base)
	for range attempt {
		if base > limit/2 { // doubling would pass the limit, or overflow
			return limit
		}
		base *= 2
	}
	return base
}

// Jitter spreads d by up to the fraction to either side: 0.2 gives between 0.8 d and 1.2 d. The fraction is kept within
// [0, 1]; a nil rnd means math/rand/v2. A d of zero or less stays as it is.
func Jitter(d time.Duration, fraction float64, rnd func() float64) time.Duration {
	if d <= 0 {
		return d
	}
	fraction = min(max(fraction, 0), 1)
	return time.Duration(float64(d) * (1 + fraction*(2*chance(rnd)-1)))
}

// RetryAfter reads the value of a Retry-After header in either form, seconds or an HTTP date, the latter against now.
// The wait is never negative and never longer than limit; zero or less means [MaxRetryAfter]. It reports false when the value is
// missing or is neither form.
func RetryAfter(value string, now time.Time, limit time.Duration) (time.Duration, bool) {
	if limit <= 0 {
		limit = MaxRetryAfter
	}
	value = strings.TrimSpace(value)
	if value == "" {
		return 0, false
	}
	if digits(value) {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(limit/time.Second) { // too many digits is a long wait, not a mistake
			return limit, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), limit), true
}

func digits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}

func chance(rnd func() float64) float64 {
	if rnd == nil {
		return rand.Float64()
	}
	return rnd()
}
