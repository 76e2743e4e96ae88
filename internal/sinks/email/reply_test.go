package email_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/email"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
)

// A reply may be a code and nothing else.
func TestBareReplies(t *testing.T) {
	o, ca := secured(t, sinkfakes.SMTPOptions{STARTTLS: true, Username: "herald", Password: password}, "127.0.0.1")
	plain, encrypted := newServer(t, sinkfakes.SMTPOptions{}), newServer(t, o)
	secure := config(encrypted)
	secure.Mode, secure.TLS.CA, secure.Username, secure.Password = email.ModeSTARTTLS, ca, "herald", value(password)
	for name, on := range map[string]struct {
		server *sinkfakes.SMTP
		sink   *email.Sink
	}{"plain": {plain, newSink(t, config(plain))}, "starttls": {encrypted, newSink(t, secure)}} {
		t.Run(name, func(t *testing.T) {
			for command, reply := range map[string]string{"STARTTLS": "220", "AUTH": "235", "MAIL": "250", "RCPT": "250", "DATA": "354", ".": "250"} {
				on.server.Script(command, reply)
			}
			send(t, on.sink, merchant("A"))
			if n := len(on.server.Mails()); n != 1 {
				t.Errorf("%d mails, want 1", n)
			}
			for command, want := range map[string]struct {
				reply   string
				verdict sinks.Verdict
			}{
				"MAIL": {"451", sinks.Temporary}, "RCPT": {"550", sinks.Rejected}, "DATA": {"554", sinks.Rejected}, ".": {"552-\r\n552", sinks.Rejected},
			} {
				on.server.Script(command, want.reply)
				if f := failure(t, on.sink, merchant("B")); f.Verdict != want.verdict || f.Status == 0 || !strings.HasPrefix(want.reply, strconv.Itoa(f.Status)) {
					t.Errorf("%s answered by %q gave %s, %d: %v", command, want.reply, f.Verdict, f.Status, f)
				}
			}
		})
	}
	encrypted.Script("AUTH", "535")
	if f := failure(t, newSink(t, secure), merchant("C")); f.Verdict != sinks.Paused || f.Status != 535 {
		t.Errorf("a login answered by 535 gave %s: %v", f.Verdict, f)
	}
}
