// Package redistest gives tests a real Redis. Start uses the server that
// REDIS_URL names or runs one of its own; Own always runs one, so that a test
// may stop it. A test is never skipped: without a server it fails and says how
// to get one.
package redistest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	readyWithin = 30 * time.Second
	installHelp = "install it (apt-get install redis-server, brew install redis) or set REDIS_URL"
)

// Server is a Redis server that a test may use. Its methods are for the
// goroutine of the test.
type Server struct {
	t      testing.TB
	url    string
	binary string // empty: a server that is not ours
	dir    string
	port   int
	args   []string
	cmd    *exec.Cmd
}

// Start gives a server until the test ends: the one of REDIS_URL, shared with
// others, or one of its own. Tests keep to key prefixes of their own.
func Start(t testing.TB) *Server {
	t.Helper()
	if url := os.Getenv("REDIS_URL"); url != "" {
		s := &Server{t: t, url: url}
		s.await()
		return s
	}
	return Own(t)
}

// Own runs a server of its own until the test ends, with more arguments for
// redis-server, such as "--maxmemory", "1mb". What is written survives Restart.
func Own(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, binary: find(t), dir: t.TempDir(), port: freePort(t), args: args}
	s.url = "redis://127.0.0.1:" + strconv.Itoa(s.port) + "/0"
	s.run()
	t.Cleanup(s.Stop)
	return s
}

// URL is where clients connect; it stays the same over a restart.
func (s *Server) URL() string { return s.url }

// Port is the loopback port of a server started by Own.
func (s *Server) Port() int { return s.port }

// Client is a plain client of the server, closed when the test ends.
func (s *Server) Client() *redis.Client {
	s.t.Helper()
	opts, err := redis.ParseURL(s.url)
	if err != nil {
		s.t.Fatalf("parse redis address: %v", err)
	}
	c := redis.NewClient(opts)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Stop kills a server started by Own and waits for it.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // fails only if it has ended by itself
	_ = s.cmd.Wait()         // "signal: killed" is what was asked for
	s.cmd = nil
}

// Restart stops a server started by Own if it runs and starts it on the same
// port with the same data.
func (s *Server) Restart() {
	s.t.Helper()
	if s.binary == "" {
		s.t.Fatal("restart redis: this server is not ours, use Own")
	}
	s.Stop()
	s.run()
}

// Pause stops the process from running without ending it, and Resume lets it
// go on: to its clients it is a server that hangs.
func (s *Server) Pause() { s.signal("STOP") }

// Resume ends a Pause.
func (s *Server) Resume() { s.signal("CONT") }

func (s *Server) signal(name string) {
	s.t.Helper()
	if s.cmd == nil {
		s.t.Fatal("signal redis: no server of ours runs")
	}
	if out, err := exec.Command("kill", "-"+name, strconv.Itoa(s.cmd.Process.Pid)).CombinedOutput(); err != nil {
		s.t.Fatalf("signal redis: %v: %s", err, out)
	}
}

func (s *Server) run() {
	s.t.Helper()
	args := append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "no", "--databases", "4",
	}, s.args...)
	cmd := exec.Command(s.binary, args...)
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("start redis: %v", err)
	}
	s.cmd = cmd
	s.await()
}

func (s *Server) await() {
	s.t.Helper()
	opts, err := redis.ParseURL(s.url)
	if err != nil {
		s.t.Fatalf("parse redis address: %v", err)
	}
	opts.DialerRetries, opts.MaxRetries = 1, -1
	c := redis.NewClient(opts)
	defer func() { _ = c.Close() }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	for {
		err := c.Ping(ctx).Err()
		if err == nil || redis.IsAuthError(err) { // it answers; a password is the test's affair
			return
		}
		if ctx.Err() != nil {
			s.t.Fatalf("redis is not ready after %s: %v", readyWithin, err)
		}
		<-tick.C
	}
}

// find looks for redis-server and installs it where that is possible: as root
// on a system with apt.
func find(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("redis-server"); err == nil {
		return path
	}
	if _, err := exec.LookPath("apt-get"); err == nil && os.Geteuid() == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "apt-get", "install", "-y", "--no-install-recommends", "redis-server")
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("redis-server is needed and could not be installed: %v\n%s\n%s", err, out, installHelp)
		}
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("redis-server is needed: %s", installHelp)
	}
	return path
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer l.Close()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("find a free port: %v is no TCP address", l.Addr())
	}
	return addr.Port
}
