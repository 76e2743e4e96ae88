package webhook_test

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
	"github.com/heraldbridge/herald/internal/sinks/webhook"
)

// spoken answers with the bytes given and goes on with more, without end, until
// the client leaves.
func spoken(answer, more string) sinkfakes.Answer {
	return sinkfakes.Answer{Handler: func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		for text := answer; ; text = more {
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
			if more == "" {
				_, _ = io.Copy(io.Discard, conn)
				return
			}
		}
	}}
}

// A receiver that does not keep to HTTP holds a try up to its time at most, costs no
// memory to speak of, and shows nothing.
func TestHostileReceiversAreBounded(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	long := strings.Repeat("a", 8<<10)
	accepted, failed := sinks.Verdict(""), sinks.Temporary
	for name, test := range map[string]struct {
		answer, more string
		want         sinks.Verdict
	}{
		"switches and stays":     {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "", sinks.Refused},
		"switches and talks":     {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", long, sinks.Refused},
		"continues for ever":     {"", "HTTP/1.1 100 Continue\r\n\r\n", failed},
		"hints for ever":         {"", "HTTP/1.1 103 Early Hints\r\nX: " + long + "\r\n\r\n", failed},
		"headers for ever":       {ok, "X-A: " + long + "\r\n", failed},
		"a header without end":   {ok + "X-A: ", long, failed},
		"a status without end":   {"HTTP/1.1 200 ", long, failed},
		"body is shorter":        {ok + "Content-Length: 99999\r\n\r\nok", "", accepted},
		"body is longer":         {ok + "Connection: close\r\nContent-Length: 2\r\n\r\nok", long, accepted},
		"chunk without end":      {ok + "Transfer-Encoding: chunked\r\n\r\n1;", long, accepted},
		"trailers for ever":      {ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n", "X-A: " + long + "\r\n", accepted},
		"lengths that disagree":  {ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok", "", failed},
		"a status of its own":    {"HTTP/1.1 999 " + canaryPath + "\r\n\r\n", "", failed},
		"a status below all":     {"HTTP/1.1 000 " + canaryPath + "\r\n\r\n", "", sinks.Refused},
		"no HTTP":                {canaryPath + "\r\n\r\n", "", failed},
		"another protocol":       {"SSH-2.0-OpenSSH_9.9\r\n", "", failed},
		"HTTP/2 out of the blue": {"\x00\x00\x12\x04\x00\x00\x00\x00\x00", "", failed},
		"waits for a year":       {"HTTP/1.1 503 x\r\nRetry-After: 1e99\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "", sinks.Down},
	} {
		t.Run(name, func(t *testing.T) {
			hook := newHook(t)
			s := newSink(t, webhook.Config{URL: secretURL(hook), AllowCIDRs: loopback(), Timeout: time.Second, Secrets: keys(canarySecret)})
			hook.Script(spoken(test.answer, test.more))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			_, err := s.Send(t.Context(), sinkstest.Notification(sinkstest.Confirming()))
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if took > time.Minute {
				t.Errorf("the try took %v", took)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
				t.Errorf("the try used %d bytes", used)
			}
			var f *sinks.Failure
			if errors.As(err, &f); f == nil && test.want != accepted || f != nil && f.Verdict != test.want {
				t.Errorf("gave %v, want %s", err, test.want)
			}
			if f != nil && (strings.Contains(f.Error(), sinkstest.Canary) || len(f.Error()) > 1<<10 || f.After > time.Hour) {
				t.Errorf("the failure waits %v and says %s", f.After, f)
			}
			send(t, s, sinkstest.Notification(sinkstest.Confirming())) // the next one is not the worse for it
		})
	}
}
