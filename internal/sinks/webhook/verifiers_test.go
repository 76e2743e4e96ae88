package webhook_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
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

// verdicts runs the verifiers from npm over the deliveries.
func verdicts(t *testing.T, deliveries []delivery) []struct{ V1, V1a bool } {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is not installed: install Node.js 18 or newer with npm (apt-get install nodejs npm, or https://nodejs.org)")
	}
	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "verify.mjs"} {
		content, err := os.ReadFile(filepath.Join("testdata", "npm", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v: npm has to be installed and to reach its registry or have the packages in its cache\n%s", err, out)
	}
	var in, errs bytes.Buffer
	for _, d := range deliveries {
		if err := json.NewEncoder(&in).Encode(d); err != nil {
			t.Fatal(err)
		}
	}
	verify := exec.CommandContext(t.Context(), node, "verify.mjs")
	verify.Dir, verify.Stdin, verify.Stderr = dir, &in, &errs
	out, err := verify.Output()
	if err != nil {
		t.Fatalf("verify: %v\n%s", err, errs.Bytes())
	}
	var got []struct{ V1, V1a bool }
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var one struct{ V1, V1a bool }
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, one)
	}
	if len(got) != len(deliveries) {
		t.Fatalf("%d verdicts of %d deliveries", len(got), len(deliveries))
	}
	return got
}

// One sink signs with an HMAC and an ed25519 secret at once; verifiers of others, in
// two languages, take every delivery and none that was changed.
func TestB18_VerifiersOfOthersAcceptEveryDelivery(t *testing.T) {
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
	library, err := standardwebhooks.NewWebhook(hmacKey)
	if err != nil {
		t.Fatal(err)
	}
	var all []delivery
	for _, r := range hook.Received() {
		if err := library.Verify(r.Body, r.Header); err != nil {
			t.Fatalf("the Go library refuses a delivery: %v", err)
		}
		d := delivered(r, hmacKey, public)
		changed := d.flips(random)
		r.Header.Set("webhook-id", d.ID+"x")
		if library.VerifyIgnoringTimestamp(r.Body, r.Header) == nil {
			t.Fatal("the Go library takes another id")
		}
		r.Header.Set("webhook-id", d.ID)
		if library.VerifyIgnoringTimestamp(changed[2].Body, r.Header) == nil {
			t.Fatal("the Go library takes another body")
		}
		all = append(append(all, d), changed...)
	}
	const each = 4 // the delivery and its changed forms
	for i, v := range verdicts(t, all) {
		if want := i%each == 0; v.V1 != want || v.V1a != want {
			t.Fatalf("delivery %d, form %d: v1 %v, v1a %v", i/each, i%each, v.V1, v.V1a)
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
