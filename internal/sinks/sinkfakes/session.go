package sinkfakes

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/textproto"
	"strings"
	"time"
)

// session is one connection to the mail server.
type session struct {
	server    *SMTP
	conn      net.Conn
	reader    *bufio.Reader
	encrypted bool
	loggedIn  bool
	mail      Mail
	ended     bool
}

func (s *session) secure(config *tls.Config) {
	s.conn = tls.Server(s.conn, config)
	s.encrypted = true
}

// say answers, or gives the scripted reply instead; it reports whether the
// ordinary reply went out.
func (s *session) say(command, reply string) bool {
	scripted, ok := s.server.scripted(command)
	if ok {
		reply = scripted
	}
	switch reply {
	case "drip":
		s.drip()
		s.ended = true
		return false
	case "flood":
		s.flood()
		fallthrough
	case "drop":
		s.ended = true
		return false
	}
	if _, err := io.WriteString(s.conn, reply+"\r\n"); err != nil {
		s.ended = true
	}
	if strings.HasPrefix(reply, "421") {
		s.ended = true
	}
	return !ok || reply[0] == '2' || reply[0] == '3'
}

// drip sends a line without end, one byte at a time, until the client leaves.
func (s *session) drip() {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := s.conn.Write([]byte("2")); err != nil {
			return
		}
		<-ticker.C
	}
}

// flood sends one line of 20 MB.
func (s *session) flood() {
	const size = 20 << 20
	chunk := []byte("220 " + strings.Repeat("x", 32<<10))
	for sent := 0; sent < size; sent += len(chunk) {
		if _, err := s.conn.Write(chunk); err != nil {
			return
		}
	}
}

func (s *session) line() (string, bool) {
	line, err := s.reader.ReadString('\n')
	if err != nil {
		s.ended = true
		return "", false
	}
	return strings.TrimRight(line, "\r\n"), true
}

func (s *session) run() {
	if !s.say("CONNECT", "220 fake.example.test ESMTP") {
		return
	}
	for !s.ended {
		line, ok := s.line()
		if !ok {
			return
		}
		s.server.mu.Lock()
		s.server.lines = append(s.server.lines, line)
		s.server.mu.Unlock()
		verb, rest, _ := strings.Cut(line, " ")
		s.command(strings.ToUpper(verb), rest)
	}
}

func (s *session) command(verb, rest string) {
	o := s.server.options
	switch verb {
	case "EHLO":
		s.say(verb, "250-fake.example.test\r\n"+s.extensions()+"250 8BITMIME")
	case "HELO", "RSET", "NOOP":
		s.mail = Mail{}
		s.say(verb, "250 OK")
	case "STARTTLS":
		if !o.STARTTLS || s.encrypted {
			s.say(verb, "502 not offered")
			return
		}
		if s.say(verb, "220 go ahead") {
			s.secure(o.TLS)
			s.reader = bufio.NewReader(s.conn)
		}
	case "AUTH":
		s.auth(rest)
	case "MAIL":
		if o.Username != "" && !s.loggedIn {
			s.say(verb, "530 5.7.0 Authentication required")
			return
		}
		if s.say(verb, "250 2.1.0 OK") {
			s.mail = Mail{From: path(rest), TLS: s.encrypted}
		}
	case "RCPT":
		if s.say(verb, "250 2.1.5 OK") {
			s.mail.To = append(s.mail.To, path(rest))
		}
	case "DATA":
		s.data()
	case "QUIT":
		s.say(verb, "221 bye")
		s.ended = true
	default:
		s.say(verb, "500 what")
	}
}

func (s *session) extensions() string {
	o := s.server.options
	list := ""
	if o.STARTTLS && !s.encrypted {
		list += "250-STARTTLS\r\n"
	}
	if o.Username != "" && (s.encrypted || o.ClearAuth) {
		list += "250-AUTH PLAIN LOGIN\r\n"
	}
	return list
}

func (s *session) auth(rest string) {
	mechanism, initial, _ := strings.Cut(rest, " ")
	user, password := "", ""
	switch strings.ToUpper(mechanism) {
	case "PLAIN":
		if parts := strings.SplitN(decode64(initial), "\x00", 3); len(parts) == 3 {
			user, password = parts[1], parts[2]
		}
	case "LOGIN":
		s.say("", "334 VXNlcm5hbWU6")
		line, _ := s.line()
		user = decode64(line)
		s.say("", "334 UGFzc3dvcmQ6")
		line, _ = s.line()
		password = decode64(line)
	default:
		s.say("AUTH", "504 unknown mechanism")
		return
	}
	if !s.server.noteLogin(user, password) {
		s.say("AUTH", "535 5.7.8 Authentication credentials invalid")
		return
	}
	s.loggedIn = s.say("AUTH", "235 2.7.0 OK")
}

func (s *session) data() {
	if len(s.mail.To) == 0 {
		s.say("DATA", "503 no recipients")
		return
	}
	if !s.say("DATA", "354 go on") {
		return
	}
	data, err := textproto.NewReader(s.reader).ReadDotBytes()
	if err != nil {
		s.ended = true
		return
	}
	// ReadDotBytes rewrites line ends; mails have CRLF.
	s.mail.Data = []byte(strings.ReplaceAll(string(data), "\n", "\r\n"))
	if s.server.options.Checks {
		if problem := missing(s.mail.Data); problem != "" {
			s.say(".", "554 5.6.0 "+problem)
			return
		}
	}
	if s.say(".", "250 2.0.0 queued") {
		s.server.mu.Lock()
		s.server.mails = append(s.server.mails, s.mail)
		s.server.mu.Unlock()
	}
	s.mail = Mail{}
}

func path(rest string) string {
	_, rest, _ = strings.Cut(rest, "<")
	rest, _, _ = strings.Cut(rest, ">")
	return rest
}
