// Package email sends a notification as one mail to one or more recipients.
//
// The connection is encrypted from the first byte (implicit) or upgraded by
// STARTTLS, which is then required; plain is used only when it is asked for by
// name. Nothing is ever downgraded: without the encryption that was asked for no
// credentials and no mail go out. Each mail has its own connection, so nothing
// depends on a server's patience with idle ones. It is one transaction for all
// recipients; when a server refuses some of them, the others get the mail, and the
// refused ones are named in the receipt.
//
// A mail's Message-ID is made from the event and is the same over all tries, so a
// mail that was sent twice because an answer was lost can be recognised. All mails
// of one chain of purchases refer to the same, never sent, root and so form one
// conversation.
package email

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"strconv"
	"strings"
	"time"

	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/words"
)

// Mode is how the connection is encrypted.
type Mode string

// The modes.
const (
	ModeImplicit Mode = "implicit" // TLS from the first byte, usually port 465
	ModeSTARTTLS Mode = "starttls" // TLS by STARTTLS, required, usually port 587
	ModePlain    Mode = "plain"    // none: credentials and mails can be read on the way
)

// DefaultTimeout bounds a try when the configuration does not.
const DefaultTimeout = 30 * time.Second

// Config describes a mail server, a sender and recipients.
type Config struct {
	Name     string
	Mode     Mode                                            // empty: starttls
	Host     string                                          // name or address; an IPv6 address with or without brackets
	Port     int                                             // zero: 465, 587 or 25 by Mode
	Username string                                          // empty: no login
	Password func(ctx context.Context) (secret.Value, error) // asked for each mail; for AuthXOAUTH2 an access token
	Auth     Auth                                            // empty: the strongest that the server offers
	From     string                                          // address with or without a display name
	To       []string                                        // likewise
	TLS      sinks.TLS
	HELO     string           // name given to the server; empty: localhost
	Location *time.Location   // of times in mails; nil: UTC
	Timeout  time.Duration    // of one try; zero: DefaultTimeout
	Now      func() time.Time // nil: time.Now
}

// Sink sends mails through one server. The server is named by the operator and
// usually is inside the network, so its address is not judged.
type Sink struct {
	config Config
	from   *mail.Address
	to     []*mail.Address
	addr   string
	now    func() time.Time
}

// New checks a configuration and makes the sink; nothing is connected yet.
func New(c Config) (*Sink, error) {
	s := &Sink{config: c, now: c.Now}
	if s.now == nil {
		s.now = time.Now
	}
	if s.config.Timeout <= 0 {
		s.config.Timeout = DefaultTimeout
	}
	var problems []error
	note := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	note(s.server())
	var err error
	s.from, err = address("from", c.From)
	note(err)
	if len(c.To) == 0 {
		note(errors.New("to names no recipient"))
	}
	for _, text := range c.To {
		to, err := address("to", text)
		note(err)
		s.to = append(s.to, to)
	}
	if c.Username != "" && c.Password == nil {
		note(errors.New("a username needs a password"))
	}
	if strings.ContainsAny(c.Username, "\x00\r\n") || strings.ContainsAny(c.HELO, " \r\n") {
		note(errors.New("username or helo holds a character that cannot be sent"))
	}
	note(c.Auth.check(s.config.Mode))
	_, err = c.TLS.Config("")
	note(err)
	if len(problems) > 0 {
		return nil, fmt.Errorf("build email sink %s: %w", c.Name, errors.Join(problems...))
	}
	return s, nil
}

// server fills in mode, host and port.
func (s *Sink) server() error {
	c := &s.config
	usual := map[Mode]int{ModeImplicit: 465, ModeSTARTTLS: 587, ModePlain: 25}
	if c.Mode == "" {
		c.Mode = ModeSTARTTLS
	}
	port, ok := usual[c.Mode]
	if !ok {
		return errors.New("mode is none of implicit, starttls and plain")
	}
	if c.Port == 0 {
		c.Port = port
	}
	c.Host = strings.TrimSuffix(strings.TrimPrefix(c.Host, "["), "]")
	if c.Host == "" || c.Port < 0 || c.Port > 65535 {
		return errors.New("host and port do not name a server")
	}
	if c.HELO == "" {
		c.HELO = "localhost"
	}
	s.addr = net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
	return nil
}

// address reads a mailbox. Addresses are ASCII: a server that cannot do SMTPUTF8
// would refuse others, and a domain can be written in its xn-- form.
func address(field, text string) (*mail.Address, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, errors.New(field + " holds a line break")
	}
	a, err := mail.ParseAddress(text)
	if err != nil {
		return nil, errors.New(field + " is not a mail address: write name@example.com or Name <name@example.com>")
	}
	for _, r := range a.Address {
		if r <= ' ' || r >= 0x7f {
			return nil, errors.New(field + " has an address with other characters than ASCII; write the domain in its xn-- form")
		}
	}
	return a, nil
}

// Send sends one mail, once.
func (s *Sink) Send(ctx context.Context, n sinks.Notification) (sinks.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	content, id, err := s.compose(n)
	if err != nil {
		return sinks.Receipt{}, s.fail(&sinks.Failure{Verdict: sinks.Rejected, Reason: sinks.ReasonRender, Err: err})
	}
	var password secret.Value
	if s.config.Username != "" {
		if password, err = s.config.Password(ctx); err != nil {
			return sinks.Receipt{}, s.fail(&sinks.Failure{Verdict: sinks.Down, Reason: sinks.ReasonAuth, Err: fmt.Errorf("read password: %w", err)})
		}
	}
	d := dialogue{config: &s.config, addr: s.addr, password: password}
	refused, f := d.run(ctx, s.from.Address, addresses(s.to), content)
	if f != nil {
		return sinks.Receipt{}, s.fail(f)
	}
	detail := "sent <" + id + ">"
	if len(refused) > 0 {
		detail += "; refused: " + listed(refused)
	}
	return sinks.Receipt{Detail: detail}, nil
}

// listed names refused recipients with what the server said, which gets the shorter
// the more they are. A record of an outcome stays small.
func listed(refused []string) string {
	const most, least = 7 << 10, 64 // bytes of all, and of each
	var parts []string
	left := most
	for i, one := range refused {
		one = words.Cut(one, max(most/len(refused)-len("; "), least), words.Bytes)
		if left -= len(one) + len("; "); left < 0 {
			return strings.Join(parts, "; ") + fmt.Sprintf("; and %d more", len(refused)-i)
		}
		parts = append(parts, one)
	}
	return strings.Join(parts, "; ")
}

func addresses(list []*mail.Address) []string {
	out := make([]string, len(list))
	for i, a := range list {
		out[i] = a.Address
	}
	return out
}

func (s *Sink) fail(f *sinks.Failure) error { return f.At(s.config.Name) }
