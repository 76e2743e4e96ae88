package envoy

import (
	"errors"
	"io"
	"sync"
)

const (
	maxReply    = 1 << 20 // bytes; a reply of the contract has 3 to 60 KB
	firstBytes  = 16 << 10
	manyValues  = 1 << 14 // in a list that is not kept for the next reply
	firstValues = 256
)

// errTooLarge ends the reading of a reply that is over maxReply.
var errTooLarge = errors.New("reply is over 1 MiB")

// slate is the memory in which one reply is read and decoded.
type slate struct {
	text    []byte
	decoder decoder
}

// slates lends slates. A ready reply puts payment details there, so each is wiped
// before anybody else gets it, and so is each text that was left behind while
// growing.
type slates struct{ pool sync.Pool }

func (p *slates) take() *slate {
	if s, ok := p.pool.Get().(*slate); ok {
		return s
	}
	s := &slate{text: make([]byte, 0, firstBytes)}
	s.decoder.values = make([]value, 0, firstValues)
	return s
}

func (p *slates) wipe(s *slate) {
	clear(s.text[:cap(s.text)])
	s.text = s.text[:0]
	if cap(s.decoder.values) <= manyValues {
		p.pool.Put(s)
	}
}

// fill reads all of r.
func (s *slate) fill(r io.Reader) error {
	for {
		if len(s.text) == cap(s.text) {
			bigger := make([]byte, len(s.text), min(4*cap(s.text), maxReply+1))
			copy(bigger, s.text)
			clear(s.text)
			s.text = bigger
		}
		n, err := r.Read(s.text[len(s.text):cap(s.text)])
		s.text = s.text[:len(s.text)+n]
		switch {
		case len(s.text) > maxReply:
			return errTooLarge
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
