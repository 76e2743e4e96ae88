package telemetry

import (
	"bytes"
	"log" //nolint:depguard // what net/http writes to
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A receiver that sends bytes nobody asked for, such as the secret part of its own address, gets none of them into a log.
func TestB39_UnsolicitedBytesAreNotLogged(t *testing.T) {
	var out safeBuffer
	before := log.Writer()
	log.SetOutput(Strange(NewLogger(&out, "debug", "json")))
	t.Cleanup(func() { log.SetOutput(before) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Read(make([]byte, 4096))
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nX: canary-of-the-path\r\nContent-Length: 0\r\n\r\n"))
		_, _ = c.Read(make([]byte, 1))
	}()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + l.Addr().String() + "/canary-of-the-path")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	out.await(t, "Unsolicited response")
	if strings.Contains(out.String(), "canary") {
		t.Errorf("it is in the log: %s", out.String())
	}
}

// safeBuffer can be read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// await waits until a text is there.
func (s *safeBuffer) await(t *testing.T, text string) {
	t.Helper()
	deadline, tick := time.NewTimer(30*time.Second), time.NewTicker(5*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !strings.Contains(s.String(), text) {
		select {
		case <-deadline.C:
			t.Fatalf("no %q in %q", text, s.String())
		case <-tick.C:
		}
	}
}
