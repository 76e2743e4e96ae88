package email

import (
	"context"
	"encoding/base64"
	"errors"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail/smtp"

	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
)

// Auth is how the sink logs in.
type Auth string

// The ways to log in, by the names that servers offer them under. AuthAuto takes the
// strongest that the server offers, in the order of automatic; XOAUTH2 only where
// nothing else is offered, since its password is an access token.
const (
	AuthAuto            Auth = ""
	AuthScramSHA256Plus Auth = "SCRAM-SHA-256-PLUS" // bound to the TLS connection
	AuthScramSHA1Plus   Auth = "SCRAM-SHA-1-PLUS"   // bound to the TLS connection
	AuthScramSHA256     Auth = "SCRAM-SHA-256"
	AuthScramSHA1       Auth = "SCRAM-SHA-1"
	AuthCRAMMD5         Auth = "CRAM-MD5"
	AuthPlain           Auth = "PLAIN"
	AuthLogin           Auth = "LOGIN"
	AuthXOAUTH2         Auth = "XOAUTH2" // the password is an access token, read anew for each mail
)

// automatic is the order of AuthAuto. Those that never show the password to the
// server come first.
func automatic() []Auth {
	return []Auth{
		AuthScramSHA256Plus, AuthScramSHA1Plus, AuthScramSHA256, AuthScramSHA1, AuthCRAMMD5, AuthPlain, AuthLogin, AuthXOAUTH2,
	}
}

// bound reports what needs a TLS connection to bind to.
func (a Auth) bound() bool { return a == AuthScramSHA256Plus || a == AuthScramSHA1Plus }

// check refuses a way that is not known, and one that cannot work without TLS.
func (a Auth) check(m Mode) error {
	switch {
	case a != AuthAuto && !slices.Contains(automatic(), a):
		return errors.New("auth is none of the logins that Herald knows")
	case a.bound() && m == ModePlain:
		return errors.New("auth binds to an encrypted connection, which mode plain has not")
	}
	return nil
}

// choose picks a login from what the server offers.
func (a Auth) choose(offered []string, encrypted bool) (Auth, error) {
	if len(offered) == 0 {
		return "", errors.New("the server offers no login")
	}
	if a != AuthAuto {
		if !slices.Contains(offered, string(a)) {
			return "", errors.New("the server does not offer the login " + string(a))
		}
		return a, nil
	}
	for _, way := range automatic() {
		if slices.Contains(offered, string(way)) && (encrypted || !way.bound()) {
			return way, nil
		}
	}
	return "", errors.New("the server offers no login that Herald knows")
}

// login authenticates if a user name is configured.
func (d *dialogue) login(ctx context.Context) *sinks.Failure {
	if d.config.Username == "" {
		return nil
	}
	_, mechanisms := d.client.Extension("AUTH")
	state, encrypted := d.client.TLSConnectionState()
	way, err := d.config.Auth.choose(strings.Fields(strings.ToUpper(mechanisms)), encrypted)
	if err != nil {
		return &sinks.Failure{Verdict: sinks.Down, Reason: sinks.ReasonAuth, Err: err}
	}
	user, host, password := d.config.Username, d.config.Host, d.password.Reveal()
	plainText := d.config.Mode == ModePlain // by name: the operator has chosen it
	var auth smtp.Auth
	switch way {
	case AuthScramSHA256Plus:
		auth = &wary{Auth: smtp.ScramSHA256PlusAuth(user, password, &state)}
	case AuthScramSHA1Plus:
		auth = &wary{Auth: smtp.ScramSHA1PlusAuth(user, password, &state)}
	case AuthScramSHA256:
		auth = &wary{Auth: smtp.ScramSHA256Auth(user, password)}
	case AuthScramSHA1:
		auth = &wary{Auth: smtp.ScramSHA1Auth(user, password)}
	case AuthCRAMMD5:
		auth = smtp.CRAMMD5Auth(user, password)
	case AuthPlain:
		auth = smtp.PlainAuth("", user, password, host, plainText)
	case AuthLogin:
		auth = smtp.LoginAuth(user, password, host, plainText)
	case AuthXOAUTH2:
		auth = smtp.XOAuth2Auth(user, password)
	case AuthAuto:
		return &sinks.Failure{Verdict: sinks.Down, Reason: sinks.ReasonAuth, Err: errors.New("no login was chosen")}
	}
	if err := d.client.Auth(auth); err != nil {
		return d.notLoggedIn(ctx, err)
	}
	return nil
}

// What a server may ask of SCRAM. Fewer rounds would let it guess the password from
// our answer, more would keep us busy for as long as it likes.
const (
	fewestRounds = 4096
	mostRounds   = 1_000_000
)

// wary is a SCRAM login that does not do whatever the server says.
type wary struct {
	smtp.Auth
	proven bool // the server has shown that it knows the password, too
}

// Next answers the server, or gives up.
func (w *wary) Next(said []byte, more bool) ([]byte, error) {
	if rounds, ok := rounds(said); ok && more && (rounds < fewestRounds || rounds > mostRounds) {
		return nil, errors.New("the server wants a SCRAM login with too few or too many rounds")
	}
	if !more && !w.proven {
		return nil, errors.New("the server takes a SCRAM login without proving itself")
	}
	answer, err := w.Auth.Next(said, more)
	w.proven = err == nil && strings.HasPrefix(string(said), "v=")
	return answer, err
}

// rounds reads them from the server's first message.
func rounds(said []byte) (int, bool) {
	for part := range strings.SplitSeq(string(said), ",") {
		if text, ok := strings.CutPrefix(part, "i="); ok {
			n, err := strconv.Atoi(text)
			return n, err == nil
		}
	}
	return 0, false
}

// notLoggedIn tells credentials that are refused from trouble of the login itself.
func (d *dialogue) notLoggedIn(ctx context.Context, err error) *sinks.Failure {
	var said *textproto.Error
	if !errors.As(err, &said) {
		f := d.network(ctx, err, true)
		if f.Reason == sinks.ReasonProtocol { // the exchange made no sense, as when SCRAM's proof of the server fails
			f.Verdict, f.Reason = sinks.Down, sinks.ReasonAuth
		}
		return f
	}
	f := d.answer("log in", said)
	f.Reason = sinks.ReasonAuth
	f.Verdict = sinks.Down // 454 and other temporary troubles of the login itself
	if said.Code >= 500 {
		f.Verdict = sinks.Paused
	}
	return f
}

// mask lists the forms in which a server may echo the login.
func (d *dialogue) mask() []secret.Value {
	if d.password.IsZero() {
		return nil
	}
	password := d.password.Reveal()
	plain := "\x00" + d.config.Username + "\x00" + password
	bearer := "user=" + d.config.Username + "\x01auth=Bearer " + password + "\x01\x01"
	out := []secret.Value{d.password}
	for _, text := range []string{plain, bearer} {
		out = append(out, secret.New(text), secret.New(base64.StdEncoding.EncodeToString([]byte(text))))
	}
	return out
}
