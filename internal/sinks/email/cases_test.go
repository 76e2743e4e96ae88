package email_test

import (
	"bytes"
	"errors"
	"flag"
	"maps"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/email"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
)

var update = flag.Bool("update", false, "write the golden files")

func send(t *testing.T, s sinks.Sink, n sinks.Notification) sinks.Receipt {
	t.Helper()
	r, err := s.Send(t.Context(), n)
	if err != nil {
		t.Fatalf("send: %v", err)
	}
	return r
}

func failure(t *testing.T, s sinks.Sink, n sinks.Notification) *sinks.Failure {
	t.Helper()
	_, err := s.Send(t.Context(), n)
	var f *sinks.Failure
	if !errors.As(err, &f) {
		t.Fatalf("send gave %v, want a failure", err)
	}
	return f
}

func merchant(name string) sinks.Notification {
	e := sinkstest.Confirming()
	e.Purchase.Merchant.Name = name
	return sinkstest.Notification(e)
}

// header is the block before the first empty line, as it was on the wire.
func header(m sinkfakes.Mail) string {
	block, _, _ := strings.Cut(string(m.Data), "\r\n\r\n")
	return block
}

func TestB05_HeadersCannotBeInjected(t *testing.T) {
	server := newServer(t, sinkfakes.SMTPOptions{Checks: true})
	s := newSink(t, config(server))
	send(t, s, merchant("Plain"))
	for _, lineEnd := range []string{"\r\n", "\n", "\r", "\u2028", "\u0085", "\v"} {
		hostile := "Acme" + lineEnd + "Bcc: spy@example.test" + lineEnd + lineEnd + "Hello"
		send(t, s, merchant(hostile))
		mails := server.Mails()
		plain, got := mails[0], mails[len(mails)-1]
		if !slices.Equal(got.To, []string{"oncall@ops.example.com"}) {
			t.Errorf("%q: recipients are %v", lineEnd, got.To)
		}
		p, want := parse(t, got), parse(t, plain)
		if a, b := slices.Sorted(maps.Keys(p.header)), slices.Sorted(maps.Keys(want.header)); !slices.Equal(a, b) {
			t.Errorf("%q: headers are %v, want %v", lineEnd, a, b)
		}
		if len(p.header["Subject"]) != 1 || len(p.header["Bcc"]) != 0 {
			t.Errorf("%q: header is %v", lineEnd, p.header)
		}
		if rest := strings.ReplaceAll(header(got), "\r\n", ""); strings.ContainsAny(rest, "\r\n") {
			t.Errorf("%q: a bare line end is in the header", lineEnd)
		}
		if body := strings.ReplaceAll(p.text, "Acme Bcc: spy@example.test Hello", "Plain"); body != want.text {
			t.Errorf("%q: the body differs apart from the name:\n%s", lineEnd, body)
		}
	}
	if bytes.Contains(server.Bytes(), []byte("RCPT TO:<spy")) {
		t.Error("the spy became a recipient")
	}
	c := config(server)
	for _, from := range []string{"A\r\nBcc: spy@example.test <a@b.test>", "a@b.test\nX: y"} {
		c.From = from
		if _, err := email.New(c); err == nil {
			t.Errorf("sender %q was accepted", from)
		}
	}
}

func TestB06_NonASCIIHeadersAreEncodedWords(t *testing.T) {
	server := newServer(t, sinkfakes.SMTPOptions{Checks: true})
	c := config(server)
	c.From = "भुगतान सूचना <herald@ops.example.com>"
	c.To = []string{"राम <oncall@ops.example.com>"}
	e := sinkstest.Confirming()
	e.Purchase.Merchant.Name, e.Purchase.Amount.Display = strings.Repeat("राम ट्रेडर्स ", 4), "₹1,499"
	send(t, newSink(t, c), sinkstest.Notification(e))
	got := server.Mails()[0]
	for _, b := range []byte(header(got)) {
		if b >= 0x80 {
			t.Fatalf("a header byte is %#x", b)
		}
	}
	words := regexp.MustCompile(`=\?[^?]+\?[qQbB]\?[^?]*\?=`).FindAllString(header(got), -1)
	for _, w := range words {
		if len(w) > 75 {
			t.Errorf("an encoded word has %d characters", len(w))
		}
		single := parsed{header: mail.Header{"X": {w}}}
		if text := single.decoded(t, "X"); strings.ContainsRune(text, '\ufffd') {
			t.Errorf("an encoded word splits a character: %s", w)
		}
	}
	for line := range strings.SplitSeq(header(got), "\r\n") {
		if strings.Contains(line, "=?") && len(line) > 76 {
			t.Errorf("a line with encoded words has %d characters: %s", len(line), line)
		}
	}
	p := parse(t, got)
	subject := "Not confirmed yet: ₹1,499 at " + strings.TrimSpace(e.Purchase.Merchant.Name)
	if len(words) < 3 || p.decoded(t, "Subject") != subject {
		t.Errorf("subject is %q, want %q", p.decoded(t, "Subject"), subject)
	}
	from, err := mail.ParseAddress(p.header.Get("From"))
	if err != nil || from.Name != "भुगतान सूचना" || from.Address != "herald@ops.example.com" {
		t.Errorf("From is %v, %v", from, err)
	}
	if !strings.Contains(p.text, "राम ट्रेडर्स") || got.From != "herald@ops.example.com" {
		t.Errorf("the body or the sender changed: %s %s", got.From, p.text)
	}
}

func TestB07_NoDowngrade(t *testing.T) {
	login := sinkfakes.SMTPOptions{Username: "herald", Password: password}
	tests := map[string]struct {
		options func() sinkfakes.SMTPOptions
		mode    email.Mode
		names   []string
		fails   sinks.Reason
	}{
		"a implicit": {func() sinkfakes.SMTPOptions { o := login; o.Implicit = true; return o }, email.ModeImplicit, []string{"127.0.0.1"}, ""},
		"b starttls": {func() sinkfakes.SMTPOptions { o := login; o.STARTTLS = true; return o }, email.ModeSTARTTLS, []string{"127.0.0.1"}, ""},
		"c not offered": {func() sinkfakes.SMTPOptions { o := login; o.ClearAuth = true; return o }, email.ModeSTARTTLS,
			[]string{"127.0.0.1"}, sinks.ReasonTLS},
		"d other name": {func() sinkfakes.SMTPOptions { o := login; o.STARTTLS, o.ClearAuth = true, true; return o }, email.ModeSTARTTLS,
			[]string{"other.example.test"}, sinks.ReasonTLS},
		"d other name, implicit": {func() sinkfakes.SMTPOptions { o := login; o.Implicit = true; return o }, email.ModeImplicit,
			[]string{"other.example.test"}, sinks.ReasonTLS},
		"implicit against plain": {func() sinkfakes.SMTPOptions { o := login; o.ClearAuth = true; return o }, email.ModeImplicit,
			[]string{"127.0.0.1"}, sinks.ReasonTLS},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o, ca := secured(t, test.options(), test.names...)
			server := newServer(t, o)
			c := config(server)
			c.Mode, c.TLS.CA, c.Username, c.Password = test.mode, ca, "herald", value(password)
			s := newSink(t, c)
			if test.fails == "" {
				send(t, s, merchant("Acme"))
				if m := server.Mails(); len(m) != 1 || !m[0].TLS {
					t.Errorf("mails are %+v", m)
				}
				if test.mode == email.ModeImplicit && server.Bytes()[0] != 0x16 {
					t.Error("the first byte is no TLS handshake")
				}
				return
			}
			f := failure(t, s, merchant("Acme"))
			if f.Verdict != sinks.Down || f.Reason != test.fails {
				t.Errorf("failure is %s/%s: %v", f.Verdict, f.Reason, f)
			}
			wire := strings.ToUpper(string(server.Bytes()) + strings.Join(server.Lines(), "\n"))
			for _, command := range []string{"AUTH", "MAIL FROM", "DATA"} {
				if strings.Contains(wire, command) {
					t.Errorf("%s was sent", command)
				}
			}
			if len(server.Logins()) != 0 {
				t.Error("credentials were sent")
			}
		})
	}
}

func TestB08_DateMessageIDAndVersionAreThereOnce(t *testing.T) {
	server := newServer(t, sinkfakes.SMTPOptions{Checks: true})
	s := newSink(t, config(server))
	first := sinkstest.Notification(sinkstest.Confirming())
	second := sinkstest.Notification(events.Samples()[0])
	remind, again := first, first
	remind.Kind, remind.Reminded = sinks.KindRemind, 1
	again.Kind, again.Reminded = sinks.KindRemind, 2
	retry := first
	retry.Attempt = 2
	for _, n := range []sinks.Notification{first, second, remind, again, retry} {
		send(t, s, n)
	}
	form := regexp.MustCompile(`^<[A-Za-z0-9._-]+@ops\.example\.com>$`)
	ids := map[string]bool{}
	mails := server.Mails()
	for _, m := range mails {
		p := parse(t, m)
		for _, name := range []string{"Date", "Message-Id", "Mime-Version"} {
			if len(p.header[name]) != 1 {
				t.Errorf("%s is there %d times", name, len(p.header[name]))
			}
		}
		date, err := p.header.Date()
		if off := time.Since(date); err != nil || off > time.Minute || off < -time.Minute {
			t.Errorf("Date is %v, %v", date, err)
		}
		id := p.header.Get("Message-Id")
		if !form.MatchString(id) {
			t.Errorf("Message-ID is %s", id)
		}
		ids[id] = true
		if p.header.Get("Auto-Submitted") != "auto-generated" {
			t.Errorf("Auto-Submitted is %q", p.header.Get("Auto-Submitted"))
		}
	}
	if len(ids) != 4 || parse(t, mails[0]).header.Get("Message-Id") != parse(t, mails[4]).header.Get("Message-Id") {
		t.Errorf("the Message-IDs of four notifications and a retry are %v", ids)
	}
	root := func(i int) string { return parse(t, mails[i]).header.Get("References") }
	if root(0) == "" || root(0) != root(2) || root(0) == root(1) || parse(t, mails[0]).header.Get("In-Reply-To") != root(0) {
		t.Errorf("conversations are %s, %s, %s", root(0), root(1), root(2))
	}
}

func TestB09_4xxIsTemporaryAnd5xxFinal(t *testing.T) {
	server := newServer(t, sinkfakes.SMTPOptions{})
	s := newSink(t, config(server))
	server.Script("RCPT", "451 4.7.1 greylisted")
	if f := failure(t, s, merchant("A")); f.Verdict != sinks.Temporary || f.Status != 451 {
		t.Errorf("451 gave %v", f)
	}
	send(t, s, merchant("A"))
	server.Script("RCPT", "550 5.1.1 no such user")
	if f := failure(t, s, merchant("B")); f.Verdict != sinks.Rejected || f.Status != 550 || !strings.Contains(f.Error(), "550") {
		t.Errorf("550 gave %v", f)
	}
	server.Script(".", "554 5.7.1 spam")
	if f := failure(t, s, merchant("C")); f.Verdict != sinks.Rejected || f.Status != 554 {
		t.Errorf("554 gave %v", f)
	}
	if n := len(server.Mails()); n != 1 {
		t.Errorf("%d mails, want 1: a sink must not retry by itself", n)
	}
}

func TestB10_TheServerMayCloseBetweenMails(t *testing.T) {
	server := newServer(t, sinkfakes.SMTPOptions{})
	c := config(server)
	s := newSink(t, c)
	send(t, s, merchant("first"))
	server.CloseIdle()
	send(t, s, merchant("closed idle"))
	server.Script("MAIL", "421 4.3.2 closing")
	if f := failure(t, s, merchant("421")); f.Verdict != sinks.Temporary {
		t.Errorf("421 gave %v", f)
	}
	send(t, s, merchant("421"))
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if f := failure(t, s, merchant("killed")); f.Verdict != sinks.Down {
		t.Errorf("a dead server gave %v", f)
	}
	if got := len(server.Mails()); got != 3 || server.Connections() < 2 {
		t.Errorf("%d mails over %d connections", got, server.Connections())
	}
	again := newServerAt(t, server.Addr())
	send(t, s, merchant("started again"))
	if got := len(again.Mails()); got != 1 {
		t.Errorf("%d mails after the restart", got)
	}
}

func newServerAt(t *testing.T, address string) *sinkfakes.SMTP {
	t.Helper()
	s, err := sinkfakes.NewSMTP(address, sinkfakes.SMTPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestB17_IPv6Literals(t *testing.T) {
	server, err := sinkfakes.NewSMTP("[::1]:0", sinkfakes.SMTPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	for _, host := range []string{"::1", "[::1]"} {
		c := config(server)
		c.Host = host
		send(t, newSink(t, c), merchant("Acme"))
	}
	if n := len(server.Mails()); n != 2 {
		t.Errorf("%d mails", n)
	}
}

func TestB22_B23_TextsShowExactDigitsAndNoPlaceholders(t *testing.T) {
	server := newServer(t, sinkfakes.SMTPOptions{})
	e := sinkstest.Confirming()
	e.Purchase.Amount = events.Amount{Minor: 9007199254740993, Currency: "INR"}
	e.Purchase.MoneyStatus.Paid, e.Purchase.Held, e.Purchase.Receipt = nil, nil, nil
	send(t, newSink(t, config(server)), sinkstest.Notification(e))
	p := parse(t, server.Mails()[0])
	for _, part := range []string{p.text, p.html} {
		if !strings.Contains(part, "INR 90071992547409.93") {
			t.Errorf("the digits are not there: %s", part)
		}
		for _, bad := range []string{"<nil>", "&lt;nil&gt;", "no value", "null", "%!", "e+"} {
			if strings.Contains(part, bad) {
				t.Errorf("the mail holds %q: %s", bad, part)
			}
		}
	}
}

func TestB36_PasswordIsUsedByteForByte(t *testing.T) {
	const odd = "pa$$w0rd$HOME${x}#1:'\"\u00e4"
	for name, o := range map[string]sinkfakes.SMTPOptions{
		"encrypted": {STARTTLS: true, Username: "herald", Password: odd},
		"clear":     {ClearAuth: true, Username: "herald", Password: odd},
	} {
		t.Run(name, func(t *testing.T) {
			o, ca := secured(t, o, "127.0.0.1")
			server := newServer(t, o)
			c := config(server)
			c.Username, c.Password, c.TLS.CA = "herald", value(odd), ca
			if o.STARTTLS {
				c.Mode = email.ModeSTARTTLS
			}
			send(t, newSink(t, c), merchant("Acme"))
			if got := server.Logins(); !slices.Equal(got, []string{"herald\x00" + odd}) {
				t.Errorf("logins are %q", got)
			}
		})
	}
}

func TestRefusedRecipientsAreNamedAndTheOthersGetTheMail(t *testing.T) {
	server := newServer(t, sinkfakes.SMTPOptions{})
	c := config(server)
	c.To = []string{"gone@ops.example.com", "oncall@ops.example.com", "full@ops.example.com"}
	s := newSink(t, c)
	server.Script("RCPT", "550 5.1.1 no such user", "250 OK", "452 4.2.2 mailbox full")
	detail := send(t, s, merchant("Acme")).Detail
	if !slices.Equal(server.Mails()[0].To, []string{"oncall@ops.example.com"}) {
		t.Errorf("the mail went to %v", server.Mails()[0].To)
	}
	for _, want := range []string{"gone@ops.example.com: 550", "full@ops.example.com: 452"} {
		if !strings.Contains(detail, want) {
			t.Errorf("detail %q does not name %q", detail, want)
		}
	}
	server.Script("RCPT", "550 no", "451 later", "550 no")
	if f := failure(t, s, merchant("Acme")); f.Verdict != sinks.Temporary || f.Status != 451 {
		t.Errorf("all refused, one for now, gave %v", f)
	}
}

// A server that drips bytes holds a try up to its time, wherever it begins to; a mail
// that it may have taken is tried again under the same id.
func TestServerThatDripsIsBounded(t *testing.T) {
	for command, want := range map[string]sinks.Verdict{
		"CONNECT": sinks.Down, "EHLO": sinks.Down, "MAIL": sinks.Temporary, "RCPT": sinks.Temporary, "DATA": sinks.Temporary, ".": sinks.Temporary,
	} {
		t.Run(command, func(t *testing.T) {
			server := newServer(t, sinkfakes.SMTPOptions{})
			c := config(server)
			c.Timeout = 500 * time.Millisecond
			server.Script(command, "drip")
			began := time.Now()
			f := failure(t, newSink(t, c), merchant("Acme"))
			if took := time.Since(began); took > c.Timeout+2*time.Second {
				t.Errorf("the try took %v", took)
			}
			if f.Verdict != want || f.Reason != sinks.ReasonTimeout {
				t.Errorf("gave %s/%s: %v", f.Verdict, f.Reason, f)
			}
		})
	}
}
