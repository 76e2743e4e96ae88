package e2e_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
)

// A version that Envoy does not take any more is not ready: the process says which part of it waits for an update.
func TestRefusedVersionIsNotReady(t *testing.T) {
	w := newWorld(t)
	p := w.start("watcher", "-c", w.config("watcher", w.outside()))
	p.says(`"msg":"running"`)
	addr := p.listen()
	ready := func() (int, string) {
		resp, err := http.Get(addr + "/readyz")
		if err != nil {
			return 0, ""
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, ""
		}
		return resp.StatusCode, string(body)
	}
	await(t, 30*time.Second, "it is ready", func() bool { status, _ := ready(); return status == http.StatusOK }, p.out.String)
	defer w.sim.Inject(envoysim.Fault{Kind: envoysim.FaultError, Code: envoysim.ClientUpdateRequired, Wait: -1})()
	await(t, 60*time.Second, "it is not ready, and says why", func() bool {
		status, body := ready()
		return status == http.StatusServiceUnavailable && strings.Contains(body, "envoy") && strings.Contains(body, "update Herald")
	}, p.out.String)
	if code := p.stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.out)
	}
}
