package sinkfakes

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// SMTPOptions shape a mail server.
type SMTPOptions struct {
	TLS      *tls.Config // for Implicit and STARTTLS
	Implicit bool        // TLS from the first byte
	STARTTLS bool        // offered
	// Username and Password, if set, make the server want a login by PLAIN or LOGIN, which it offers on
	// encrypted connections, and on others too if ClearAuth is set.
	Username, Password string
	ClearAuth          bool
	// Checks refuses mails that lack Date, Message-ID or MIME-Version or have bytes
	// outside ASCII in their header, as strict servers do.
	Checks bool
}

// Mail is a mail that the server took.
type Mail struct {
	From string
	To   []string
	Data []byte // as received, without the final dot, dots unstuffed
	TLS  bool
}

// SMTP is a mail server.
type SMTP struct {
	options  SMTPOptions
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	silent  bool
	changed chan struct{}
	open    map[net.Conn]bool
	conns   int
	bytes   []byte              // everything clients sent, before decryption
	lines   []string            // every command, decrypted
	script  map[string][]string // replies by command, used once each
	mails   []Mail
	logins  []string // user and password as decoded, separated by NUL
}

// NewSMTP begins a mail server on a loopback address.
func NewSMTP(address string, o SMTPOptions) (*SMTP, error) {
	l, err := Listen(address)
	if err != nil {
		return nil, err
	}
	s := &SMTP{options: o, listener: l, open: map[net.Conn]bool{}, script: map[string][]string{}, changed: make(chan struct{})}
	s.wg.Go(s.accept)
	return s, nil
}

// Port is the port the server listens on.
func (s *SMTP) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// Addr is the address the server listens on.
func (s *SMTP) Addr() string { return s.listener.Addr().String() }

// Silence makes the server accept connections and never greet.
func (s *SMTP) Silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = true
}

// Changed is closed at the next connection.
func (s *SMTP) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Close ends the server and all its connections, and waits for them.
func (s *SMTP) Close() error {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	err := s.listener.Close()
	s.wg.Wait()
	return err
}

// Script queues replies for a command (CONNECT, EHLO, AUTH, MAIL, RCPT, DATA, or
// "." for the end of data), each used once. A reply that begins with 421 closes
// the connection, "drop" closes it without a word, "flood" sends 20 MB first, and "drip" sends
// single bytes and never an end of line.
func (s *SMTP) Script(command string, replies ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script[command] = append(s.script[command], replies...)
}

// Mails gives the mails taken so far.
func (s *SMTP) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mail(nil), s.mails...)
}

// Lines gives the commands so far, after decryption.
func (s *SMTP) Lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.lines...)
}

// Logins gives each user name and password tried so far, separated by NUL.
func (s *SMTP) Logins() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.logins...)
}

// Bytes gives everything that clients sent, as it was on the wire.
func (s *SMTP) Bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]byte(nil), s.bytes...)
}

// Connections counts the connections so far.
func (s *SMTP) Connections() int { s.mu.Lock(); defer s.mu.Unlock(); return s.conns }

// CloseIdle closes all connections from the server's side.
func (s *SMTP) CloseIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.Close()
	}
}

func (s *SMTP) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = c.Close()
			return
		}
		s.conns++
		close(s.changed)
		s.changed = make(chan struct{})
		s.open[c] = true
		s.wg.Go(func() { s.serve(c) })
		s.mu.Unlock()
	}
}

func (s *SMTP) serve(c net.Conn) {
	defer func() {
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
		_ = c.Close()
	}()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	session := &session{server: s, conn: &recorded{Conn: c, server: s}}
	if s.options.Implicit {
		session.secure(s.options.TLS)
	}
	session.reader = bufio.NewReader(session.conn)
	s.mu.Lock()
	silent := s.silent
	s.mu.Unlock()
	if silent {
		_, _ = session.reader.ReadString('\n') // until somebody gives up
		return
	}
	session.run()
}

// recorded remembers what the client sent.
type recorded struct {
	net.Conn
	server *SMTP
}

// Read reads and remembers.
func (r *recorded) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.server.mu.Lock()
	r.server.bytes = append(r.server.bytes, p[:n]...)
	r.server.mu.Unlock()
	return n, err
}

func (s *SMTP) scripted(command string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := s.script[command]
	if len(queue) == 0 {
		return "", false
	}
	s.script[command] = queue[1:]
	return queue[0], true
}

func (s *SMTP) noteLogin(user, password string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logins = append(s.logins, user+"\x00"+password)
	return user == s.options.Username && password == s.options.Password
}

func decode64(s string) string {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return ""
	}
	return string(raw)
}

// missing names the header that a strict server wants, or what is wrong with the headers.
func missing(data []byte) string {
	header, _, _ := strings.Cut(string(data), "\r\n\r\n")
	counts := map[string]int{}
	for line := range strings.SplitSeq(header, "\r\n") {
		for _, c := range []byte(line) {
			if c >= 0x80 {
				return "bytes outside ASCII in the header"
			}
		}
		if name, _, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
			counts[strings.ToLower(name)]++
		}
	}
	for _, name := range []string{"date", "message-id", "mime-version", "from", "subject"} {
		if counts[name] != 1 {
			return fmt.Sprintf("%d times %s", counts[name], name)
		}
	}
	return ""
}
