package email_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/xdg-go/scram"

	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/email"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
)

// independent is a mail server that is not of our making, with logins that are
// not either where there is a library for them.
type independent struct {
	mechanisms []string
	password   string
	hostile    sasl.Server // takes every login instead

	mu    sync.Mutex
	used  []string // mechanisms that clients asked for
	mails [][]byte
	to    []string
}

func (b *independent) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &visit{backend: b, conn: c}, nil
}

type visit struct {
	backend *independent
	conn    *smtp.Conn
	in      bool
}

func (*visit) Reset()        {}
func (*visit) Logout() error { return nil }

func (v *visit) Mail(string, *smtp.MailOptions) error {
	if !v.in {
		return smtp.ErrAuthRequired
	}
	return nil
}

func (v *visit) Rcpt(to string, _ *smtp.RcptOptions) error {
	v.backend.mu.Lock()
	defer v.backend.mu.Unlock()
	v.backend.to = append(v.backend.to, to)
	return nil
}

func (v *visit) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	v.backend.mu.Lock()
	defer v.backend.mu.Unlock()
	v.backend.mails = append(v.backend.mails, data)
	return err
}

func (v *visit) AuthMechanisms() []string { return v.backend.mechanisms }

func (v *visit) Auth(mechanism string) (sasl.Server, error) {
	v.backend.mu.Lock()
	v.backend.used = append(v.backend.used, mechanism)
	v.backend.mu.Unlock()
	check := func(user, password string) error {
		if user != "herald" || password != v.backend.password {
			return smtp.ErrAuthFailed
		}
		v.in = true
		return nil
	}
	if v.backend.hostile != nil {
		v.in = true
		return v.backend.hostile, nil
	}
	switch email.Auth(mechanism) {
	case email.AuthPlain:
		return sasl.NewPlainServer(func(_, user, password string) error { return check(user, password) }), nil
	case email.AuthLogin:
		return &steps{prompts: []string{"Username:", "Password:"}, end: func(in []string) error { return check(in[0], in[1]) }}, nil
	case email.AuthXOAUTH2:
		return &steps{prompts: []string{""}, end: func(in []string) error {
			user, token, _ := strings.Cut(strings.TrimPrefix(in[0], "user="), "\x01auth=Bearer ")
			return check(user, strings.TrimSuffix(token, "\x01\x01"))
		}}, nil
	case email.AuthCRAMMD5:
		const challenge = "<1896.697170952@mail.example.test>"
		return &steps{prompts: []string{challenge}, end: func(in []string) error {
			mac := hmac.New(md5.New, []byte(v.backend.password))
			mac.Write([]byte(challenge))
			if in[0] != "herald "+hex.EncodeToString(mac.Sum(nil)) {
				return smtp.ErrAuthFailed
			}
			return check("herald", v.backend.password)
		}}, nil
	default:
		return v.scram(mechanism)
	}
}

func (v *visit) scram(mechanism string) (sasl.Server, error) {
	hash := scram.SHA256
	if strings.HasPrefix(mechanism, "SCRAM-SHA-1") {
		hash = scram.SHA1
	}
	client, err := hash.NewClient("herald", v.backend.password, "")
	if err != nil {
		return nil, err
	}
	stored, err := client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: "a salt of 16 byt", Iters: 4096})
	if err != nil {
		return nil, err
	}
	server, err := hash.NewServer(func(string) (scram.StoredCredentials, error) { return stored, nil })
	if err != nil {
		return nil, err
	}
	s := &scrammed{talk: server.NewConversation(), done: func() { v.in = true }}
	if strings.HasSuffix(mechanism, "-PLUS") {
		state, _ := v.conn.TLSConnectionState()
		binding, err := scram.NewTLSExporterBinding(&state)
		if err != nil {
			return nil, err
		}
		s.talk = server.NewConversationWithChannelBindingRequired(binding)
	}
	return s, nil
}

// steps asks for a list of things and then decides.
type steps struct {
	prompts, given []string
	end            func([]string) error
}

func (s *steps) Next(response []byte) ([]byte, bool, error) {
	if response != nil {
		s.given = append(s.given, string(response))
	}
	if n := len(s.given); n < len(s.prompts) {
		return []byte(s.prompts[n]), false, nil
	}
	return nil, true, s.end(s.given)
}

type scrammed struct {
	talk *scram.ServerConversation
	done func()
}

func (s *scrammed) Next(response []byte) ([]byte, bool, error) {
	if response == nil {
		return []byte{}, false, nil
	}
	if s.talk.Done() && s.talk.Valid() {
		s.done()
		return nil, true, nil
	}
	challenge, err := s.talk.Step(string(response))
	if err != nil {
		return nil, false, smtp.ErrAuthFailed
	}
	return []byte(challenge), false, nil
}

// greedy plays SCRAM with rounds of its choice, and takes what comes without the
// proof that it knows the password.
type greedy struct{ rounds int }

func (g *greedy) Next(response []byte) ([]byte, bool, error) {
	_, nonce, first := strings.Cut(string(response), "n=herald,r=")
	switch {
	case response == nil:
		return []byte{}, false, nil
	case first:
		return fmt.Appendf(nil, "r=%sserver,s=c2FsdHNhbHRzYWx0,i=%d", nonce, g.rounds), false, nil
	}
	return nil, true, nil
}

// A server cannot keep a login busy, make it cheap to guess from, or pass for one
// that knows the password.
func TestSCRAMIsWaryOfTheServer(t *testing.T) {
	for rounds, text := range map[int]string{
		2147483647: "rounds", 1000001: "rounds", 4095: "rounds", 1: "rounds", 0: "rounds", -5: "rounds", 4096: "without proving itself",
	} {
		for _, auth := range []email.Auth{email.AuthScramSHA256, email.AuthScramSHA1, email.AuthScramSHA256Plus, email.AuthScramSHA1Plus} {
			t.Run(fmt.Sprint(auth, rounds), func(t *testing.T) {
				b := &independent{mechanisms: []string{string(auth)}, hostile: &greedy{rounds}}
				c := visitable(t, b)
				c.Password = value(password)
				f := failure(t, newSink(t, c), merchant("Acme"))
				if f.Verdict != sinks.Down || f.Reason != sinks.ReasonAuth || !strings.Contains(f.Error(), text) {
					t.Errorf("gave %s/%s: %v", f.Verdict, f.Reason, f)
				}
				if len(b.mails) != 0 {
					t.Error("the mail went out")
				}
			})
		}
	}
}

// visitable starts the server, with STARTTLS.
func visitable(t *testing.T, b *independent) email.Config {
	t.Helper()
	o, ca := secured(t, sinkfakes.SMTPOptions{}, "127.0.0.1")
	l, err := sinkfakes.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := smtp.NewServer(b)
	s.Domain, s.TLSConfig = "mail.example.test", o.TLS
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return email.Config{
		Name: sinkstest.SinkName, Mode: email.ModeSTARTTLS, Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port,
		From: "Herald <herald@ops.example.com>", To: []string{"Payments on call <oncall@ops.example.com>"},
		Username: "herald", TLS: sinks.TLS{CA: ca}, Timeout: 20 * time.Second,
	}
}

func everyLogin() []email.Auth {
	return []email.Auth{
		email.AuthScramSHA256Plus, email.AuthScramSHA1Plus, email.AuthScramSHA256, email.AuthScramSHA1,
		email.AuthCRAMMD5, email.AuthPlain, email.AuthLogin, email.AuthXOAUTH2,
	}
}

func TestEveryLoginWorksWithAServerOfOthers(t *testing.T) {
	const odd = "pa$$ w0rd=,\u00e4'\""
	for _, auth := range everyLogin() {
		t.Run(string(auth), func(t *testing.T) {
			b := &independent{mechanisms: []string{string(auth)}, password: odd}
			c := visitable(t, b)
			c.Password = value(odd)
			send(t, newSink(t, c), merchant("Acme"))
			c.Auth = auth
			send(t, newSink(t, c), merchant("Acme"))
			if len(b.mails) != 2 || !slices.Equal(b.used, []string{string(auth), string(auth)}) {
				t.Errorf("%d mails with the logins %v", len(b.mails), b.used)
			}
			if !bytes.Contains(b.mails[0], []byte("Auto-Submitted: auto-generated")) || b.to[0] != "oncall@ops.example.com" {
				t.Errorf("the mail is to %v: %s", b.to, b.mails[0])
			}
			c.Password = value(sinkstest.Canary)
			f := failure(t, newSink(t, c), merchant("Acme"))
			if f.Verdict != sinks.Paused || f.Reason != sinks.ReasonAuth || strings.Contains(f.Error(), sinkstest.Canary) {
				t.Errorf("a wrong password gave %s/%s: %v", f.Verdict, f.Reason, f)
			}
			if len(b.mails) != 2 {
				t.Error("a mail went out without a login")
			}
		})
	}
}

// Of several logins the strongest is taken, and a token is not sent as a password.
func TestTheStrongestLoginIsTaken(t *testing.T) {
	all := everyLogin()
	for i := range all {
		var offered []string
		for _, a := range all[i:] {
			offered = append([]string{string(a)}, offered...) // weakest first
		}
		t.Run(fmt.Sprint(offered), func(t *testing.T) {
			b := &independent{mechanisms: offered, password: password}
			c := visitable(t, b)
			c.Password = value(password)
			send(t, newSink(t, c), merchant("Acme"))
			if !slices.Equal(b.used, []string{string(all[i])}) {
				t.Errorf("used %v, want %s", b.used, all[i])
			}
		})
	}
}

func TestALoginThatIsNotOfferedIsTheServersTrouble(t *testing.T) {
	for name, test := range map[string]struct {
		offered []string
		auth    email.Auth
		text    string
	}{
		"named, not offered": {[]string{"PLAIN"}, email.AuthXOAUTH2, "does not offer the login XOAUTH2"},
		"none that we know":  {[]string{"GSSAPI"}, "", "no login that Herald knows"},
		"none":               {nil, "", "offers no login"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &independent{mechanisms: test.offered, password: password}
			c := visitable(t, b)
			c.Password, c.Auth = value(password), test.auth
			f := failure(t, newSink(t, c), merchant("Acme"))
			if f.Verdict != sinks.Down || f.Reason != sinks.ReasonAuth || !strings.Contains(f.Error(), test.text) || len(b.used) != 0 {
				t.Errorf("gave %s/%s %v after %v", f.Verdict, f.Reason, f, b.used)
			}
		})
	}
	c := config(newServer(t, sinkfakes.SMTPOptions{}))
	for _, auth := range []email.Auth{"NTLM", email.AuthScramSHA256Plus} { // unknown, and bound to TLS in mode plain
		c.Auth = auth
		if _, err := email.New(c); err == nil {
			t.Errorf("%s was accepted", auth)
		}
	}
}

var _ smtp.AuthSession = (*visit)(nil)

// The authority of the operator is the only one that counts.
func TestAPrivateAuthorityIsTrustedAndNoOther(t *testing.T) {
	b := &independent{mechanisms: []string{"PLAIN"}, password: password}
	c := visitable(t, b)
	c.Password = value(password)
	send(t, newSink(t, c), merchant("Acme"))
	_, c.TLS.CA = secured(t, sinkfakes.SMTPOptions{}, "127.0.0.1")
	for _, ca := range []string{c.TLS.CA, ""} {
		c.TLS.CA = ca
		f := failure(t, newSink(t, c), merchant("Acme"))
		if f.Verdict != sinks.Down || f.Reason != sinks.ReasonTLS {
			t.Errorf("gave %s/%s: %v", f.Verdict, f.Reason, f)
		}
	}
	if len(b.mails) != 1 || len(b.used) != 1 {
		t.Errorf("%d mails, %d logins", len(b.mails), len(b.used))
	}
}
