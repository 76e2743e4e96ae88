package email

import (
	"bufio"
	"bytes"

	"github.com/wneessen/go-mail/smtp"
)

// bareReplies has the client understand replies that are a code and nothing else,
// as RFC 5321, section 4.2.1 allows: textproto wants at least a space behind it.
// STARTTLS begins a new reader, so it is called again after that.
func bareReplies(c *smtp.Client) {
	c.Text.R = bufio.NewReader(&spaced{from: c.Text.R})
}

// spaced puts a space behind a code that stands alone on its line.
type spaced struct {
	from   *bufio.Reader
	rest   []byte // read and not given on
	within bool   // the next bytes belong to a line that has begun
}

// Read gives at most one line.
func (s *spaced) Read(p []byte) (n int, err error) {
	if len(s.rest) == 0 {
		s.rest, err = s.from.ReadSlice('\n') // the buffer is full: a part of the line
		whole := bytes.HasSuffix(s.rest, []byte("\n"))
		if code := bytes.TrimRight(s.rest, "\r\n"); whole && !s.within && isCode(code) {
			s.rest = []byte(string(code) + " \r\n")
		}
		if s.within = !whole; len(s.rest) > 0 {
			err = nil // it comes again
		}
	}
	n = copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, err
}

func isCode(line []byte) bool {
	return len(line) == 3 && len(bytes.Trim(line, "0123456789")) == 0
}
