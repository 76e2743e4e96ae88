package docstest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/heraldbridge/herald/internal/envoysim"
)

// TestASinkThatIsDownIsNotUnready runs a process whose only receiver cannot be reached: it says so of the sink, and stays
// ready, since to be taken out of service or started again would mend nothing.
func TestASinkThatIsDownIsNotUnready(t *testing.T) {
	sim, err := envoysim.New(envoysim.Options{Seed: 6, Speed: 60, Quirks: envoysim.DefaultQuirks()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sim.Populate(envoysim.Cast{Tokens: []string{"token-host-a-0123456789abcdef"}}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	requests, cut := context.WithCancel(t.Context())
	server := &http.Server{Handler: sim.Handler(), BaseContext: func(net.Listener) context.Context { return requests }}
	ended := make(chan error, 2)
	go func() { ended <- sim.Run(ctx) }()
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() { cut(); stop(); _ = server.Close(); <-ended; <-ended })

	text := strings.Replace(idle, "http://127.0.0.1:9\"", fmt.Sprintf("http://%s\"", l.Addr()), 1)
	a := runningApp(t, text, map[string]string{"secret": "token-host-a-0123456789abcdef"})
	eventually(t, "the sink is down", func() bool {
		_, body := get(t, "http://"+a.Addr()+"/v1/sinks")
		return strings.Contains(body, `"state":"down"`)
	})
	if status, body := get(t, "http://"+a.Addr()+"/readyz"); status != http.StatusOK || body != "ready\n" {
		t.Errorf("with a sink down /readyz answers %d %q", status, body)
	}
}
