package envoy

import (
	"errors"
	"io"
	"sync"
)

const (
	maxReply   = 1 << 20 // bytes; a reply of the contract has 3 to 60 KB
	firstBytes = 16 << 10
)

// errTooLarge ends the reading of a reply that is over maxReply.
var errTooLarge = errors.New("reply is over 1 MiB")

// buffers lends the memory that replies are read into. A ready reply puts
// payment details there, so every buffer is wiped before anybody else gets it,
// and so is each smaller one that was left behind while growing.
type buffers struct{ pool sync.Pool }

func (p *buffers) take() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, firstBytes)
}

func (p *buffers) wipe(b []byte) {
	b = b[:cap(b)]
	clear(b)
	p.pool.Put(&b)
}

// read reads all of r into a buffer, which the caller has to wipe, also after an error.
func (p *buffers) read(r io.Reader) ([]byte, error) {
	b := p.take()
	for {
		if len(b) == cap(b) {
			bigger := make([]byte, len(b), min(4*cap(b), maxReply+1))
			copy(bigger, b)
			p.wipe(b)
			b = bigger
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > maxReply:
			return b, errTooLarge
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return b, err
		}
	}
}
