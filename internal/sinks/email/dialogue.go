package email

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/textproto"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
)

// maxAnswers bounds what a server may say over a whole connection, in bytes.
const maxAnswers = 1 << 20

// dialogue is one connection with one transaction.
type dialogue struct {
	config   *Config
	addr     string
	password secret.Value
	client   *smtp.Client
}

// run connects, logs in and sends. It gives the recipients that the server
// refused while it took the mail for others, or a failure.
func (d *dialogue) run(ctx context.Context, from string, to []string, content []byte) ([]string, *sinks.Failure) {
	dialer := net.Dialer{}
	raw, err := dialer.DialContext(ctx, "tcp", d.addr)
	if err != nil {
		return nil, d.network(ctx, err, false)
	}
	conn := &limited{Conn: raw, left: maxAnswers}
	defer conn.Close()
	// A context that ends makes every read and write fail, wherever the dialogue is.
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if f := d.open(ctx, conn); f != nil {
		return nil, f
	}
	if f := d.login(ctx); f != nil {
		return nil, f
	}
	refused, f := d.transaction(ctx, from, to, content)
	if f == nil && stop() { // the mail is accepted; how the server says goodbye changes nothing
		_ = raw.SetDeadline(time.Now().Add(time.Second))
		_ = d.client.Quit()
	}
	return refused, f
}

// open greets the server and gets the encryption that was asked for, or nothing.
func (d *dialogue) open(ctx context.Context, conn net.Conn) *sinks.Failure {
	tlsConfig, err := d.config.TLS.Config(d.config.Host)
	if err != nil {
		return &sinks.Failure{Verdict: sinks.Down, Reason: sinks.ReasonTLS, Err: err}
	}
	if d.config.Mode == ModeImplicit {
		secured := tls.Client(conn, tlsConfig)
		if err := secured.HandshakeContext(ctx); err != nil {
			return d.tlsFailure(ctx, err)
		}
		conn = secured
	}
	if d.client, err = smtp.NewClient(conn, d.config.Host); err != nil {
		return d.unready(ctx, "greet", err)
	}
	bareReplies(d.client)
	d.client.SkipSMTPUTF8(true)
	if err := d.client.Hello(d.config.HELO); err != nil {
		return d.unready(ctx, "say hello", err)
	}
	if d.config.Mode != ModeSTARTTLS {
		return nil
	}
	if ok, _ := d.client.Extension("STARTTLS"); !ok {
		return &sinks.Failure{Verdict: sinks.Down, Reason: sinks.ReasonTLS, Err: errors.New("the server does not offer STARTTLS, which is required")}
	}
	if err := d.client.StartTLS(tlsConfig); err != nil {
		var said *textproto.Error
		if errors.As(err, &said) {
			return d.unready(ctx, "start TLS", err)
		}
		return d.tlsFailure(ctx, err)
	}
	bareReplies(d.client)
	return nil
}

// transaction is MAIL, RCPT and DATA.
func (d *dialogue) transaction(ctx context.Context, from string, to []string, content []byte) ([]string, *sinks.Failure) {
	if err := d.client.Mail(path(from)); err != nil {
		f := d.step(ctx, "name the sender", err)
		if f.Verdict == sinks.Rejected { // the sender is the same for all mails: no event is to blame
			f.Verdict = sinks.Refused
		}
		return nil, f
	}
	var refused []string
	var worst *sinks.Failure
	for _, rcpt := range to {
		err := d.client.Rcpt(path(rcpt))
		if err == nil {
			continue
		}
		f := d.step(ctx, rcpt, err)
		if f.Status == 0 || f.Status == 421 {
			return nil, f
		}
		if f.Reason == sinks.ReasonStatus {
			f.Reason = sinks.ReasonRecipient
		}
		refused = append(refused, f.Err.Error())
		if worst == nil || f.Verdict == sinks.Temporary { // one that may come right is worth another try
			worst = f
		}
	}
	if len(refused) == len(to) {
		return nil, worst
	}
	w, err := d.client.Data()
	if err != nil {
		return nil, d.step(ctx, "begin data", err)
	}
	if _, err := w.Write(content); err != nil {
		return nil, d.network(ctx, err, true)
	}
	if err := w.Close(); err != nil {
		return nil, d.step(ctx, "end data", err)
	}
	return refused, nil
}

// path is an address as commands want it: in brackets, and what stands before the @
// between quotes where it has to.
func path(address string) string { return (&mail.Address{Address: address}).String() }

// step classifies an error within the transaction: 4xx is temporary, 5xx final.
func (d *dialogue) step(ctx context.Context, doing string, err error) *sinks.Failure {
	var said *textproto.Error
	if !errors.As(err, &said) {
		return d.network(ctx, err, true)
	}
	f := d.answer(doing, said)
	switch {
	case said.Code == 530 || said.Code == 534 || said.Code == 535 || said.Code == 538:
		f.Verdict, f.Reason = sinks.Paused, sinks.ReasonAuth
	case said.Code >= 500 && said.Code < 600:
		f.Verdict = sinks.Rejected
	case said.Code >= 400 && said.Code < 500:
		f.Verdict = sinks.Temporary
	default:
		f.Verdict, f.Reason = sinks.Temporary, sinks.ReasonProtocol
	}
	return f
}

// unready is an answer before any transaction: the server's trouble, not the mail's.
func (d *dialogue) unready(ctx context.Context, doing string, err error) *sinks.Failure {
	var said *textproto.Error
	if !errors.As(err, &said) {
		f := d.network(ctx, err, true)
		if f.Verdict == sinks.Temporary && !errors.Is(ctx.Err(), context.Canceled) {
			f.Verdict = sinks.Down // nothing was handed over
		}
		return f
	}
	f := d.answer(doing, said)
	f.Verdict, f.Reason = sinks.Down, sinks.ReasonServer
	return f
}

func (d *dialogue) answer(doing string, said *textproto.Error) *sinks.Failure {
	text := fmt.Sprintf("%s: %d %s", doing, said.Code, sinks.Excerpt([]byte(said.Msg), d.mask()...))
	return &sinks.Failure{Reason: sinks.ReasonStatus, Status: said.Code, Err: errors.New(strings.TrimSpace(text))}
}

func (d *dialogue) tlsFailure(ctx context.Context, err error) *sinks.Failure {
	f := d.network(ctx, err, false)
	if f.Reason == sinks.ReasonDial {
		f.Reason = sinks.ReasonTLS
	}
	return f
}

// network classifies an error of the connection. A deadline that our context set
// is shown as what ended the context.
func (d *dialogue) network(ctx context.Context, err error, connected bool) *sinks.Failure {
	if cause := ctx.Err(); cause != nil {
		err = cause
	}
	return sinks.NetworkFailure(err, connected, d.mask()...)
}

// limited ends a connection whose other side talks without end.
type limited struct {
	net.Conn
	left int64
}

// Read reads until the limit, then fails.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errors.New("the server's answers are too large")
	}
	n, err := l.Conn.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}
