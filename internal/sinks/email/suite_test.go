package email_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/email"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const password = sinkstest.Canary + "-password"

func now() time.Time { return time.Date(2026, 9, 29, 13, 5, 0, 0, time.UTC) }

func value(text string) func(context.Context) (secret.Value, error) {
	return func(context.Context) (secret.Value, error) { return secret.New(text), nil }
}

func newServer(t *testing.T, o sinkfakes.SMTPOptions) *sinkfakes.SMTP {
	t.Helper()
	s, err := sinkfakes.NewSMTP("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// secured adds a certificate for the names and gives the file of its authority.
func secured(t *testing.T, o sinkfakes.SMTPOptions, names ...string) (sinkfakes.SMTPOptions, string) {
	t.Helper()
	authority, err := sinkfakes.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	if o.TLS, err = authority.Server(names...); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, authority.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return o, path
}

func config(s *sinkfakes.SMTP) email.Config {
	return email.Config{
		Name: sinkstest.SinkName, Mode: email.ModePlain, Host: "127.0.0.1", Port: s.Port(),
		From: "Herald <herald@ops.example.com>", To: []string{"Payments on call <oncall@ops.example.com>"},
		Timeout: 10 * time.Second,
	}
}

func newSink(t *testing.T, c email.Config) *email.Sink {
	t.Helper()
	s, err := email.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// parsed is a mail as an independent reader sees it.
type parsed struct {
	header mail.Header
	text   string
	html   string
}

func parse(t *testing.T, m sinkfakes.Mail) parsed {
	t.Helper()
	msg, err := mail.ReadMessage(strings.NewReader(string(m.Data)))
	if err != nil {
		t.Fatalf("read mail: %v\n%s", err, m.Data)
	}
	p := parsed{header: msg.Header}
	media, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil || media != "multipart/alternative" {
		t.Fatalf("content type is %q: %v", msg.Header.Get("Content-Type"), err)
	}
	reader := multipart.NewReader(msg.Body, params["boundary"])
	for {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return p
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			t.Fatal(err)
		}
		switch kind := part.Header.Get("Content-Type"); kind {
		case "text/plain; charset=UTF-8":
			p.text = string(body)
		case "text/html; charset=UTF-8":
			p.html = string(body)
		default:
			t.Errorf("a part is %q", kind)
		}
	}
}

func (p parsed) decoded(t *testing.T, header string) string {
	t.Helper()
	text, err := new(mime.WordDecoder).DecodeHeader(p.header.Get(header))
	if err != nil {
		t.Fatalf("decode %s: %v", header, err)
	}
	return text
}

type named struct {
	command, reply string
	want           sinkstest.Want
}

func table() map[string]named {
	t := map[string]named{}
	add := func(command, reply string, v sinks.Verdict, r sinks.Reason) {
		w := sinkstest.Want{Verdict: v, Reason: r}
		if reply != "drop" {
			_, _ = fmt.Sscan(reply, &w.Status)
		}
		t[command+" "+reply] = named{command, reply, w}
	}
	add("CONNECT", "421 too busy", sinks.Down, sinks.ReasonServer)
	add("CONNECT", "554 no service", sinks.Down, sinks.ReasonServer)
	add("CONNECT", "drop", sinks.Down, sinks.ReasonReset)
	add("AUTH", "535 5.7.8 no "+password, sinks.Paused, sinks.ReasonAuth)
	add("AUTH", "534 mechanism too weak", sinks.Paused, sinks.ReasonAuth)
	add("AUTH", "538 encryption required", sinks.Paused, sinks.ReasonAuth)
	add("AUTH", "454 temporary trouble", sinks.Down, sinks.ReasonAuth)
	add("MAIL", "451 later", sinks.Temporary, sinks.ReasonStatus)
	add("MAIL", "421 closing", sinks.Temporary, sinks.ReasonStatus)
	add("MAIL", "530 log in", sinks.Paused, sinks.ReasonAuth)
	add("MAIL", "550 not this sender", sinks.Refused, sinks.ReasonStatus)
	add("RCPT", "451 greylisted", sinks.Temporary, sinks.ReasonRecipient)
	add("RCPT", "550 no such user", sinks.Rejected, sinks.ReasonRecipient)
	add("RCPT", "drop", sinks.Temporary, sinks.ReasonReset)
	add("DATA", "452 no space", sinks.Temporary, sinks.ReasonStatus)
	add("DATA", "554 no", sinks.Rejected, sinks.ReasonStatus)
	add(".", "451 later", sinks.Temporary, sinks.ReasonStatus)
	add(".", "554 5.6.0 refused "+password, sinks.Rejected, sinks.ReasonStatus)
	add(".", "drop", sinks.Temporary, sinks.ReasonReset)
	add(".", "hello", sinks.Temporary, sinks.ReasonProtocol)
	t["QUIT drop"] = named{"QUIT", "drop", sinkstest.Want{}}
	return t
}

func harness() sinkstest.Harness {
	h := sinkstest.Harness{
		Stalled:     sinkstest.Want{Verdict: sinks.Down, Reason: sinks.ReasonTimeout},
		Unreachable: sinkstest.Want{Verdict: sinks.Down, Reason: sinks.ReasonDial},
		Flooded:     sinkstest.Want{Verdict: sinks.Down, Reason: sinks.ReasonProtocol},
		Open:        open,
	}
	for name, n := range table() {
		h.Answers = append(h.Answers, sinkstest.Answer{Name: name, Want: n.want})
	}
	return h
}

func open(t *testing.T, timeout time.Duration) *sinkstest.Bench {
	o, ca := secured(t, sinkfakes.SMTPOptions{STARTTLS: true, Username: "herald", Password: password, Checks: true}, "127.0.0.1")
	server := newServer(t, o)
	c := config(server)
	c.Mode, c.Timeout, c.Now = email.ModeSTARTTLS, timeout, now
	c.Username, c.Password = "herald", value(password)
	c.TLS = sinks.TLS{CA: ca}
	return &sinkstest.Bench{
		Sink: newSink(t, c), Canaries: []string{sinkstest.Canary},
		Answer:   func(name string) { server.Script(table()[name].command, table()[name].reply) },
		Stall:    server.Silence,
		Flood:    func() { server.Script("CONNECT", "flood") },
		Kill:     func() { _ = server.Close() },
		Arrived:  server.Changed,
		Accepted: func() int { return len(server.Mails()) },
		Shown: func() string {
			mails := server.Mails()
			p := parse(t, mails[len(mails)-1])
			return p.decoded(t, "Subject") + "\n" + p.text
		},
	}
}

func TestSuite(t *testing.T) { sinkstest.Run(t, harness()) }
