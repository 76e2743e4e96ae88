package envoy

import (
	"errors"
	"math"
	"testing"
	"time"
)

// The wait that Envoy asks for is that of next, else that of the error; the greatest number is a long wait, and stays one
// when a fifth is put on top of it.
func TestWaitsOfARefusal(t *testing.T) {
	for name, c := range map[string]struct {
		next, failure any
		want          time.Duration
	}{
		"next goes first":     {7, 90, 7 * time.Second},
		"zero is an answer":   {0, 90, 0},
		"else that of error":  {nil, 90, 90 * time.Second},
		"none":                {nil, nil, 0},
		"the greatest number": {math.MaxInt64, nil, longestWait},
	} {
		body := reply(t, ToolList, false, func(m map[string]any) {
			m["next"].(map[string]any)["after_seconds"] = c.next
			m["error"].(map[string]any)["retry_after_seconds"] = c.failure
		})
		_, err := ask(answers(200, body), ToolList)
		var refused *Error
		if !errors.As(err, &refused) || refused.After != c.want {
			t.Errorf("%s: %v, want a wait of %s", name, err, c.want)
			continue
		}
		if more := refused.After + refused.After/5; more < refused.After {
			t.Errorf("%s: with a fifth on top the wait is %s", name, more)
		}
	}
}
