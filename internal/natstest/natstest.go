// Package natstest gives tests a real NATS server with JetStream: Start runs
// one inside the test process, Process runs the server's own program, so that
// a test can kill it. Both listen on a free loopback port, keep their data in
// a folder of the test, and can be stopped and started again on the same port
// and folder.
package natstest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// readyWithin bounds how long a server may take to start, stop or answer.
const readyWithin = 30 * time.Second

// Server is a NATS server inside the test process. Its methods are for the
// goroutine of the test.
type Server struct {
	t    testing.TB
	dir  string
	port int
	srv  *server.Server
}

// Start runs a server until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir(), port: server.RANDOM_PORT}
	s.run()
	t.Cleanup(s.Stop)
	return s
}

// URL is where clients connect; it stays the same over a restart.
func (s *Server) URL() string { return "nats://127.0.0.1:" + strconv.Itoa(s.port) }

// Stop ends the server and waits for it. The data stays.
func (s *Server) Stop() {
	if s.srv == nil {
		return
	}
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	s.srv = nil
}

// Restart stops the server if it runs and starts it on the same port with the
// same data.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.run()
}

// Wipe removes everything that the server has stored. It must be stopped.
func (s *Server) Wipe() {
	s.t.Helper()
	if s.srv != nil {
		s.t.Fatal("wipe a running server: stop it first")
	}
	wipe(s.t, s.dir)
}

// DropClients drops all client connections of the running server, which stays up:
// clients see a reconnect.
func (s *Server) DropClients() {
	s.t.Helper()
	conns, err := s.srv.Connz(&server.ConnzOptions{})
	if err != nil {
		s.t.Fatalf("list connections: %v", err)
	}
	for _, c := range conns.Conns {
		// A connection that has gone by itself in between is as good as dropped.
		_ = s.srv.DisconnectClientByID(c.Cid)
	}
}

func (s *Server) run() {
	s.t.Helper()
	opts := &server.Options{
		ServerName: "natstest",
		Host:       "127.0.0.1",
		Port:       s.port,
		JetStream:  true,
		StoreDir:   s.dir,
		NoLog:      true,
		NoSigs:     true,
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		s.t.Fatalf("set up nats server: %v", err)
	}
	srv.Start()
	if !srv.ReadyForConnections(readyWithin) {
		s.t.Fatalf("nats server is not ready after %s", readyWithin)
	}
	s.srv = srv
	addr, ok := srv.Addr().(*net.TCPAddr)
	if !ok {
		s.t.Fatal("nats server listens on no TCP port")
	}
	s.port = addr.Port
}

func wipe(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("read store folder: %v", err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Fatalf("wipe store folder: %v", err)
		}
	}
}

// freePort finds a loopback port that nobody listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("find a free port: %v is no TCP address", l.Addr())
	}
	return addr.Port, nil
}
