package email_test

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/email"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
)

// A mail server that does not keep to SMTP holds a try up to its time at most, costs
// no memory to speak of, shows nothing, and is believed only when it takes the mail.
func TestHostileServersAreBounded(t *testing.T) {
	accepted := sinks.Verdict("")
	const long = 64 << 10
	for name, test := range map[string]struct {
		command, reply string
		want           sinks.Verdict
	}{
		"greets at length":           {"CONNECT", "220-" + strings.Repeat("a", long) + "\r\n220-b\r\n220 c", accepted},
		"greets in bytes":            {"CONNECT", "\xff\xfe\x00\x01", sinks.Down},
		"speaks another protocol":    {"CONNECT", "HTTP/1.1 400 Bad Request", sinks.Down},
		"greets with a book":         {"CONNECT", strings.Repeat("\u202e"+password[:4]+"\u200b"+password[4:]+"\x1b[2J", 10_000), sinks.Down},
		"answers with a book":        {"MAIL", strings.Repeat("a", 500_000), sinks.Temporary},
		"changes its mind":           {"CONNECT", "220-a\r\n554 b", sinks.Down},
		"never ends the greeting":    {"CONNECT", "220-a", sinks.Down},
		"offers nothing":             {"EHLO", "250 OK", accepted},
		"offers too much":            {"EHLO", "250-X" + strings.Repeat("\r\n250-X", 300_000) + "\r\n250 X", sinks.Down},
		"no code for the sender":     {"MAIL", "twenty", sinks.Temporary},
		"half a code for the sender": {"MAIL", "25 0", sinks.Temporary},
		"a code beyond all":          {"MAIL", "999 " + sinkstest.Canary, sinks.Temporary},
		"goes on before the data":    {"RCPT", "354 go on", sinks.Temporary},
		"takes data unasked":         {"DATA", "250 OK", sinks.Temporary},
		"goes on after the data":     {".", "354 go on", sinks.Temporary},
		"hides what it says":         {".", "554 \u202e\u200b" + password[:4] + "\u200b" + password[4:], sinks.Rejected},
		"floods the goodbye":         {"QUIT", "flood", accepted},
		"drips the goodbye":          {"QUIT", "drip", accepted},
	} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, sinkfakes.SMTPOptions{Username: "herald", Password: password, ClearAuth: true})
			c := config(server)
			c.Timeout, c.Username, c.Password = time.Second, "herald", value(password)
			if name == "offers nothing" {
				c.Username, server = "", newServer(t, sinkfakes.SMTPOptions{})
				c.Port = server.Port()
			}
			server.Script(test.command, test.reply)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			_, err := newSink(t, c).Send(t.Context(), merchant("Acme"))
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; took > time.Minute || used > 64<<20 {
				t.Errorf("the try took %v and %d bytes", took, used)
			}
			var f *sinks.Failure
			if errors.As(err, &f); f == nil && test.want != accepted || f != nil && f.Verdict != test.want {
				t.Errorf("gave %v, want %s", err, test.want)
			}
			if f != nil && (strings.Contains(f.Error(), password) || strings.ContainsAny(f.Error(), "\u202e\u200b\ufffd\x00\x1b") || len(f.Error()) > 1<<10) {
				t.Errorf("the failure says %q", f)
			}
			if test.want != accepted && len(server.Mails()) != 0 && test.command != "." {
				t.Errorf("%d mails", len(server.Mails()))
			}
		})
	}
}

// What somebody on the way says before the encryption begins is forgotten with it.
func TestB07_NothingSaidBeforeTheEncryptionCounts(t *testing.T) {
	o, ca := secured(t, sinkfakes.SMTPOptions{STARTTLS: true, Username: "herald", Password: password}, "127.0.0.1")
	server := newServer(t, o)
	c := config(server)
	c.Mode, c.TLS.CA, c.Username, c.Password = email.ModeSTARTTLS, ca, "herald", value(password)
	server.Script("STARTTLS", "220 go ahead\r\n250-fake.example.test\r\n250-AUTH XOAUTH2\r\n250 SIZE\r\n235 in\r\n250 OK\r\n250 OK\r\n354 go on\r\n250 queued")
	send(t, newSink(t, c), merchant("Acme"))
	if m := server.Mails(); len(m) != 1 || !m[0].TLS || !slices.Equal(server.Logins(), []string{"herald\x00" + password}) {
		t.Errorf("mails are %+v, logins %d", m, len(server.Logins()))
	}
	if slices.ContainsFunc(server.Lines(), func(line string) bool { return strings.Contains(line, "XOAUTH2") }) {
		t.Error("a login was chosen that was offered in clear")
	}
}
