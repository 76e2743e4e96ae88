package webhook_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
	"github.com/heraldbridge/herald/internal/sinks/webhook"
)

// delivery is what a verifier of others is given.
type delivery struct {
	Secret    string `json:"secret"`
	PublicKey []byte `json:"publicKey"`
	ID        string `json:"id"`
	Timestamp string `json:"timestamp"`
	Signature string `json:"signature"`
	Body      []byte `json:"body"`
}

func delivered(r sinkfakes.Request, secretText string, public ed25519.PublicKey) delivery {
	return delivery{
		Secret: secretText, PublicKey: public, Body: r.Body, ID: r.Header.Get("webhook-id"),
		Timestamp: r.Header.Get("webhook-timestamp"), Signature: r.Header.Get("webhook-signature"),
	}
}

// flips gives the delivery with one thing changed each.
func (d delivery) flips(random *rand.Rand) []delivery {
	id, at, body := d, d, d
	id.ID += "x"
	at.Timestamp = "1" + at.Timestamp[1:len(at.Timestamp)-1] + string('0'+('9'-at.Timestamp[len(at.Timestamp)-1]))
	body.Body = bytes.Clone(d.Body)
	body.Body[random.IntN(len(body.Body))] ^= 1
	return []delivery{id, at, body}
}

// signed is what a sink with an HMAC and an ed25519 secret at once has delivered.
type signed struct {
	hmacKey  string
	public   ed25519.PublicKey
	requests []sinkfakes.Request
	random   *rand.Rand
}

// deliverMany sends events with awkward text.
func deliverMany(t *testing.T) signed {
	t.Helper()
	const payloads = 500
	random := rand.New(rand.NewPCG(3, 4))
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	hmacKey := "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	hook := newHook(t)
	s := newSink(t, webhook.Config{
		URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(),
		Secrets: keys(hmacKey, "whsk_"+base64.StdEncoding.EncodeToString(private)),
	})
	pieces := []string{"Müller & Söhne <b>", "\u2028", "/", "9007199254740993", "😀", "\u2029", "\\", `"`, "राम", "\n", "\x00", "\u202e"}
	for range payloads {
		e := sinkstest.Confirming()
		var name strings.Builder
		for range random.IntN(6) {
			name.WriteString(pieces[random.IntN(len(pieces))])
		}
		e.Purchase.Merchant.Name = name.String()
		send(t, s, sinkstest.Notification(e))
	}
	return signed{hmacKey, public, hook.Received(), random}
}

// The Standard Webhooks library for Go takes every delivery and none that was changed.
func TestB18_TheStandardWebhooksLibraryAcceptsEveryDelivery(t *testing.T) {
	s := deliverMany(t)
	library, err := standardwebhooks.NewWebhook(s.hmacKey)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.requests) != 500 {
		t.Fatalf("%d deliveries", len(s.requests))
	}
	for _, r := range s.requests {
		if err := library.Verify(r.Body, r.Header); err != nil {
			t.Fatalf("a delivery is refused: %v", err)
		}
		d := delivered(r, s.hmacKey, s.public)
		r.Header.Set("webhook-id", d.ID+"x")
		if library.VerifyIgnoringTimestamp(r.Body, r.Header) == nil {
			t.Fatal("another id is taken")
		}
		r.Header.Set("webhook-id", d.ID)
		if library.VerifyIgnoringTimestamp(d.flips(s.random)[2].Body, r.Header) == nil {
			t.Fatal("another body is taken")
		}
	}
}

// While two secrets are active either of them verifies every delivery, by a library
// of others; afterwards only the one that is left.
func TestB19_VerifiersOfOthersSeeTheRotation(t *testing.T) {
	older := "whsec_" + base64.StdEncoding.EncodeToString([]byte("older-key-older-key-older-key"))
	newer := "whsec_" + base64.StdEncoding.EncodeToString([]byte("newer-key-newer-key-newer-key"))
	hook := newHook(t)
	send(t, newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Secrets: keys(newer, older)}), sinkstest.Notification(sinkstest.Confirming()))
	send(t, newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Secrets: keys(newer)}), sinkstest.Notification(sinkstest.Confirming()))
	for i, r := range hook.Received() {
		for text, want := range map[string]bool{older: i == 0, newer: true} {
			library, err := standardwebhooks.NewWebhook(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := library.Verify(r.Body, r.Header) == nil; got != want {
				t.Errorf("delivery %d verifies: %v, want %v", i, got, want)
			}
		}
	}
}
