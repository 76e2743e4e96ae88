//go:build tmpfs

package app

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/telemetry"
)

// A disk of its own is filled under the embedded server, and emptied: the process goes on by itself, with the change
// that it could not store. It mounts a file system, which takes root.
func TestFullDiskIsSurvived(t *testing.T) {
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"); err != nil {
		t.Fatalf("mount a small disk (this needs root): %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	sim, err := envoysim.New(envoysim.Options{Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	token := sim.AddToken("asha", "origin:https://host.example.test")
	envoy := httptest.NewServer(sim.Handler())
	t.Cleanup(func() { envoy.CloseClientConnections(); envoy.Close() })
	id, err := sim.Put("asha", envoysim.Purchase{
		State: envoysim.WaitingForUser, UserTask: envoysim.Approve, Rail: envoysim.OperatedCheckout,
		CheckoutBy: envoysim.ByEnvoy, MerchantName: "Example Store", MerchantURL: "https://shop.example.test", Amount: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t)
	file := filepath.Join(dir, "herald.yaml")
	write(t, filepath.Join(dir, "token"), token)
	write(t, file, fmt.Sprintf(`
data_dir: %s/data
http: { listen: %q }
connections: [{ name: host-a, base_url: %q, token: "file:token" }]
watch: { requests_per_minute: 120, look_every: 1s, discover_every: 1s }
`, disk, addr, envoy.URL))
	cfg, err := load(file, config.RoleHerald)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- runAgain(ctx, Options{Config: cfg, File: file, Role: config.RoleHerald, Version: "test",
			Log: telemetry.NewLogger(io.Discard, "info", "text")})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	until(t, "ready, and the purchase is stored", func() bool {
		return fetch(addr, "/readyz") == "ready\n" && strings.Contains(fetch(addr, "/v1/purchases"), `"state":"waiting_for_user"`)
	})
	fill(t, filepath.Join(disk, "fill"))
	if err := sim.Transition(id, func(p *envoysim.Purchase) { p.State = envoysim.Verifying }); err != nil {
		t.Fatal(err)
	}
	until(t, "not ready, since nothing can be stored", func() bool { return strings.Contains(fetch(addr, "/readyz"), "nothing could be stored") })
	if err := os.Remove(filepath.Join(disk, "fill")); err != nil {
		t.Fatal(err)
	}
	until(t, "ready again, with the change", func() bool {
		return fetch(addr, "/readyz") == "ready\n" && strings.Contains(fetch(addr, "/v1/purchases"), `"state":"verifying"`)
	})
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	piece := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(piece)
	}
}

func fetch(addr, path string) string {
	resp, err := http.Get("http://" + addr + path)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit, tick := time.After(3*time.Minute), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-limit:
			t.Fatalf("waited three minutes: %s", what)
		case <-tick.C:
		}
	}
}
