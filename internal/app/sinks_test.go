package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
)

// Every login that the file can name is one that the sink knows, and the named
// one is used although the server's list begins with another.
func TestEveryNamedLoginIsBuilt(t *testing.T) {
	server, err := sinkfakes.NewSMTP("127.0.0.1:0", sinkfakes.SMTPOptions{Username: "herald", Password: "the password", ClearAuth: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("the password\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	build := func(address, auth string) sinks.Sink {
		t.Helper()
		cfg, err := config.Parse("herald.yaml", fmt.Appendf(nil, `sinks:
  - name: mail
    email:
      smtp: %s
      username: herald
      password: file:%s
      %s
      from: herald@ops.example.com
      to: [oncall@ops.example.com]
`, address, password, auth))
		if err != nil {
			t.Fatalf("%s: %v", auth, err)
		}
		built, err := buildSinks(t.Context(), cfg)
		if err != nil {
			t.Fatalf("%s: %v", auth, err)
		}
		return built[0].sink
	}
	for _, word := range []config.EmailAuth{
		config.AuthScramSHA256Plus, config.AuthScramSHA1Plus, config.AuthScramSHA256, config.AuthScramSHA1,
		config.AuthCRAMMD5, config.AuthPlain, config.AuthLogin, config.AuthXOAUTH2,
	} {
		build("smtps://mail.example.test", "auth: "+string(word))
	}
	for auth, command := range map[string]string{"": "AUTH PLAIN", "auth: login": "AUTH LOGIN", "auth: plain": "AUTH PLAIN"} {
		before := len(server.Lines())
		s := build("smtp+plain://"+server.Addr(), auth)
		if _, err := s.Send(t.Context(), sinks.Notification{Kind: sinks.KindEvent, Event: events.Samples()[0]}); err != nil {
			t.Fatalf("%s: %v", auth, err)
		}
		if said := strings.Join(server.Lines()[before:], "\n"); !strings.Contains(said, command) {
			t.Errorf("%q: the sink said\n%s", auth, said)
		}
	}
	if logins := server.Logins(); len(logins) != 3 || logins[0] != "herald\x00the password" {
		t.Errorf("logins are %q", logins)
	}
}
