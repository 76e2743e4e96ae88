package envoysim

import (
	"fmt"
	"strings"
	"sync"
)

// mint makes every secret that the simulator gives out, and remembers it. Each is unique, so a search for it
// elsewhere has one meaning.
type mint struct {
	mu    sync.Mutex
	seed  uint64
	n     uint64
	known []string
}

// next is a number no other secret has, and a word mixed from it that looks random.
func (m *mint) next() (uint64, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
	return m.n, mix(m.seed ^ m.n)
}

// mix is the finaliser of splitmix64: neighbouring inputs give unrelated outputs.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

func (m *mint) keep(s string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = append(m.known, s)
	return s
}

func (m *mint) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.known...)
}

// cardNumber is 16 digits under a prefix reserved for tests here, with a valid check digit.
func (m *mint) cardNumber() string {
	n, _ := m.next()
	return m.keep(withCheckDigit(fmt.Sprintf("652199%09d", n%1_000_000_000)))
}

// cardInText is a card number as people type it, in groups of four. Both forms are remembered.
func (m *mint) cardInText() string {
	n := m.cardNumber()
	return m.keep(strings.Join([]string{n[0:4], n[4:8], n[8:12], n[12:16]}, " "))
}

func withCheckDigit(digits string) string {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return digits + string(rune('0'+(10-sum%10)%10))
}

// cvv and expiry are too short to search for, so they are not remembered.
func (m *mint) cvv() string {
	_, r := m.next()
	return fmt.Sprintf("%03d", r%1000)
}

func (m *mint) code(kind string) string {
	n, r := m.next()
	return m.keep(fmt.Sprintf("CANARY-%s-%05d-%06X", strings.ToUpper(kind), n, r&0xffffff))
}

func (m *mint) link(kind string) string {
	n, r := m.next()
	return m.keep(fmt.Sprintf("https://%s.canary.example.test/l/%05d-%012x", kind, n, r&0xffffffffffff))
}

func (m *mint) attempt() string {
	n, r := m.next()
	s := mix(r)
	return m.keep(fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", uint32(r), uint16(r>>32), (r>>48)&0xfff, n&0xfff, s&0xffffffffffff))
}

func (m *mint) token() string {
	n, r := m.next()
	return m.keep(fmt.Sprintf("envoy-canary-token-%04d-%016x", n, r))
}

func (m *mint) key() string {
	n, r := m.next()
	return m.keep(fmt.Sprintf("canary-intent-%06d-%08x", n, uint32(r)))
}

// hex32 is an identifier's tail. Identifiers are no secrets.
func (m *mint) hex32() string {
	_, r := m.next()
	return fmt.Sprintf("%016x%016x", r, mix(^r))
}

// Canaries lists every secret the simulator has handed out or been given to know so far: card numbers, checkout
// and voucher codes, pins, redemption, funding and payment links, checkout attempts, bearer tokens, the simulated
// agents' idempotency keys, profiles, addresses, and the links and digits it put into free text. Card security
// codes and expiry dates are left out, since three digits are found everywhere.
func (s *Sim) Canaries() []string { return s.mint.all() }
