package natstest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

const serverModule = "github.com/nats-io/nats-server/v2"

// Proc is a NATS server in a process of its own. Its methods are for the
// goroutine of the test.
type Proc struct {
	t      testing.TB
	binary string
	dir    string
	port   int
	cmd    *exec.Cmd
}

// Process runs the nats-server program of the pinned module until the test
// ends. The program is built once and kept in the user's cache folder.
func Process(t testing.TB) *Proc {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	p := &Proc{t: t, binary: build(t), dir: t.TempDir(), port: port}
	p.Start()
	t.Cleanup(p.Kill)
	return p
}

// URL is where clients connect; it stays the same over a restart.
func (p *Proc) URL() string { return "nats://127.0.0.1:" + strconv.Itoa(p.port) }

// Dir is where the server keeps its data.
func (p *Proc) Dir() string { return p.dir }

// Kill ends the process at once, as kill -9 does, and waits for it.
func (p *Proc) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // fails only if it has ended by itself
	_ = p.cmd.Wait()         // "signal: killed" is what was asked for
	p.cmd = nil
}

// Start runs the process again on the same port with the same data and waits
// until it accepts connections.
func (p *Proc) Start() {
	p.t.Helper()
	if p.cmd != nil {
		p.t.Fatal("start nats server: it runs already")
	}
	cmd := exec.Command(p.binary, "-a", "127.0.0.1", "-p", strconv.Itoa(p.port), "-js", "-sd", p.dir)
	if err := cmd.Start(); err != nil {
		p.t.Fatalf("start nats server: %v", err)
	}
	p.cmd = cmd
	awaitPort(p.t, p.port)
}

// Wipe removes everything that the server has stored. It must be stopped.
func (p *Proc) Wipe() {
	p.t.Helper()
	if p.cmd != nil {
		p.t.Fatal("wipe a running server: kill it first")
	}
	wipe(p.t, p.dir)
}

func awaitPort(t testing.TB, port int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(readyWithin)
	for {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nats server is not ready after %s: %v", readyWithin, err)
		}
		<-tick.C
	}
}

// build compiles the server of the version in go.mod unless it is there.
func build(t testing.TB) string {
	t.Helper()
	version := goCommand(t, "list", "-m", "-f", "{{.Version}}", serverModule)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("find the cache folder: %v", err)
	}
	dir := filepath.Join(cache, "herald-natstest")
	binary := filepath.Join(dir, "nats-server-"+version+"-"+runtime.GOOS+"-"+runtime.GOARCH)
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatalf("make the cache folder: %v", err)
	}
	// Built aside and renamed, since several test processes may build at once.
	aside := filepath.Join(t.TempDir(), "nats-server")
	goCommand(t, "build", "-o", aside, serverModule)
	data, err := os.ReadFile(aside)
	if err != nil {
		t.Fatalf("read the built server: %v", err)
	}
	tmp, err := os.CreateTemp(dir, "building-*")
	if err != nil {
		t.Fatalf("store the built server: %v", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already once it is renamed
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(0o755)
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), binary)
	}
	if err != nil {
		t.Fatalf("store the built server: %v", err)
	}
	return binary
}

func goCommand(t testing.TB, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}
