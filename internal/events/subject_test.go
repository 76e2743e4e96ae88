package events

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// hostileIDs are names that must never become part of a subject.
var hostileIDs = []string{"a.b", "a b", "*", ">", "x\r\nPUB y 0", "ü", strings.Repeat("a", 300), "", "pur_*", "a\x00",
	"pur_0123456789ABCDEF0123456789ABCDEF", purchaseA + ".x", purchaseA + "\n"}

func TestB29_HostileIDsAreRefused(t *testing.T) {
	for _, id := range hostileIDs {
		if ValidPurchaseID(id) || ValidWord(id) && strings.ContainsAny(id, ".*> \r\n") {
			t.Errorf("%q is taken for a purchase id", id)
		}
		_, err := Subject("host", id)
		if !errors.Is(err, ErrBadName) || strings.ContainsAny(err.Error(), "\r\n\x00") || len(err.Error()) > 400 {
			t.Errorf("subject of %q: %v", id, err)
		}
		if id != "" { // no purchase: the outcomes of notices
			if s, err := DeliverySubject("slack", id); !errors.Is(err, ErrBadName) {
				t.Errorf("delivery subject of %q: %s", id, s)
			}
		}
	}
	for _, name := range []string{"a.b", "a b", "*", ">", "x\r\nPUB y 0", "ü", strings.Repeat("a", 65), ""} {
		for what, f := range map[string]func() (string, error){
			"subject":  func() (string, error) { return Subject(name, purchaseA) },
			"notice":   func() (string, error) { return NoticeSubject(name) },
			"control":  func() (string, error) { return ControlSubject(name) },
			"dead":     func() (string, error) { return DeadSubject(name, purchaseA+"-0-1-0") },
			"event":    func() (string, error) { return DeadSubject("slack", strings.Repeat(name, 4)) },
			"delivery": func() (string, error) { return DeliverySubject(name, purchaseA) },
		} {
			if what == "event" && len(name) == 65 {
				name = strings.Repeat(name, 2)
			}
			if s, err := f(); !errors.Is(err, ErrBadName) || s != "" {
				t.Errorf("%s of %q: %q, %v", what, name, s, err)
			}
		}
	}
}

func TestSubjects(t *testing.T) {
	id := EventID(purchaseA, Position{Epoch: 1, Revision: 20, N: 3})
	if id != purchaseA+"-1-20-3" {
		t.Errorf("event id %s", id)
	}
	for want, f := range map[string]func() (string, error){
		"envoy.purchase.host-1." + purchaseA:                              func() (string, error) { return Subject("host-1", purchaseA) },
		"envoy.notice.host-1":                                             func() (string, error) { return NoticeSubject("host-1") },
		"envoy.dead.ops_slack." + id:                                      func() (string, error) { return DeadSubject("ops_slack", id) },
		"envoy.delivery.ops." + purchaseA:                                 func() (string, error) { return DeliverySubject("ops", purchaseA) },
		"envoy.delivery.ops.notice":                                       func() (string, error) { return DeliverySubject("ops", "") },
		"envoy.control.watch.host-1":                                      func() (string, error) { return ControlSubject("host-1") },
		"envoy.notice.sample-host":                                        func() (string, error) { return EventSubject(sampleNotice()) },
		"envoy.purchase.sample-host.pur_6b1e9c7a3f2d5a8e9c0b1d2e3f4a5b6c": func() (string, error) { return EventSubject(sampleDone()) },
	} {
		if got, err := f(); err != nil || got != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

func TestValidReference(t *testing.T) {
	for s, want := range map[string]bool{
		purchaseA: true, "synthetic-intent-0001": true, "pur-0123456789abcdef": true, "purx_123456789abcdef": true,
		"pur_0123456789abcde": false, "007012": false, "1e3": false, "": false, strings.Repeat("k", 15): false,
		strings.Repeat("k", 16): true, strings.Repeat("k", 64): true, strings.Repeat("k", 65): false, "intent 0123456789ab": false,
	} {
		if ValidReference(s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
}

func TestHashKey(t *testing.T) {
	if got := HashKey("abc"); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("hash %s", got)
	}
}

// TestEventIDsDoNotCollide: different positions of different purchases have
// different ids, each one token.
func TestEventIDsDoNotCollide(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(name string) (string, Position) {
			small := rapid.Int64Range(0, 12)
			return rapid.SampledFrom([]string{purchaseA, purchaseB}).Draw(rt, name),
				Position{small.Draw(rt, "epoch"), small.Draw(rt, "revision"), small.Draw(rt, "n")}
		}
		p1, a := draw("one")
		p2, b := draw("two")
		one, two := EventID(p1, a), EventID(p2, b)
		if (one == two) != (p1 == p2 && a == b) || !ValidEventID(one) {
			rt.Fatalf("%s, %s", one, two)
		}
	})
}
