package webhook_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
	"github.com/heraldbridge/herald/internal/sinks/webhook"
)

func send(t *testing.T, s sinks.Sink, n sinks.Notification) {
	t.Helper()
	if _, err := s.Send(t.Context(), n); err != nil {
		t.Fatalf("send: %v", err)
	}
}

func failure(t *testing.T, s sinks.Sink, n sinks.Notification) *sinks.Failure {
	t.Helper()
	_, err := s.Send(t.Context(), n)
	var f *sinks.Failure
	if !errors.As(err, &f) {
		t.Fatalf("send gave %v, want a failure", err)
	}
	return f
}

func TestB12_RedirectsAreNotFollowed(t *testing.T) {
	target, hook := newHook(t), newHook(t)
	s := newSink(t, webhook.Config{
		URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Secrets: keys("k"),
		Headers: map[string]secret.Value{"Authorization": secret.New("Bearer " + canaryHeader)},
	})
	for _, code := range []int{301, 302, 303, 307, 308} {
		hook.Script(sinkfakes.Answer{Status: code, Header: map[string]string{"Location": target.URL("/other")}})
		f := failure(t, s, sinkstest.Notification(sinkstest.Confirming()))
		if f.Verdict != sinks.Refused || f.Reason != sinks.ReasonRedirect || f.Status != code {
			t.Errorf("%d gave %+v", code, f)
		}
	}
	if n := target.Connections(); n != 0 {
		t.Errorf("the target of the redirect got %d connections", n)
	}
}

func TestB13_HugeAnswersAreBounded(t *testing.T) {
	hook := newHook(t)
	s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Timeout: 5 * time.Second})
	hook.Script(
		sinkfakes.Answer{Status: 200, Handler: sinkfakes.Flood(200, -1)},
		sinkfakes.Answer{Status: 500, Handler: sinkfakes.Flood(500, 50<<20)},
	)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	send(t, s, sinkstest.Notification(sinkstest.Confirming()))
	f := failure(t, s, sinkstest.Notification(sinkstest.Confirming()))
	runtime.ReadMemStats(&after)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("both took %v", took)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 50<<20 {
		t.Errorf("used %d bytes", used)
	}
	if f.Status != 500 || f.Verdict != sinks.Temporary || len(f.Error()) > 8<<10 {
		t.Errorf("the 500 gave %d bytes: %.200s", len(f.Error()), f)
	}
	if got := len(hook.Received()); got != 2 {
		t.Errorf("%d posts, want 2", got)
	}
}

// A status that is known decides, even when the body never ends.
func TestBodyThatDripsDoesNotHoldTheTryUp(t *testing.T) {
	hook := newHook(t)
	s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Timeout: time.Minute})
	hook.Script(sinkfakes.Answer{Handler: sinkfakes.DripBody})
	began := time.Now()
	send(t, s, sinkstest.Notification(sinkstest.Confirming()))
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

// reloaded is a first delivery, a retry, and a delivery after a reload.
func reloaded(before, after *webhook.Sink) []*webhook.Sink {
	return []*webhook.Sink{before, before, after}
}

func TestB16_PrivateAddressesAreRefusedBeforeAnyByte(t *testing.T) {
	hook := newHook(t)
	port := hook.URL("")[strings.LastIndexByte(hook.URL(""), ':'):]
	dns, err := sinkfakes.NewDNS(map[string]netip.Addr{
		"metadata.example.test.": netip.MustParseAddr("169.254.169.254"), "inside.example.test.": netip.MustParseAddr("127.0.0.1"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dns.Close() })
	client, err := sinks.NewHTTPClient(sinks.ClientOptions{Resolver: dns.Resolver()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	for _, host := range []string{
		"169.254.169.254", "127.0.0.1", "10.0.0.5", "localhost", "metadata.example.test", "inside.example.test", "0.0.0.0",
		"[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[fd00:ec2::254]", "[fe80::1]", "192.168.1.1", "172.16.0.1", "100.64.0.1",
		"2130706433", "0x7f000001", "127.1", "[2002:7f00:1::]", "224.0.0.1",
	} {
		c := webhook.Config{URL: secret.New("http://" + host + port + "/" + canaryPath), Client: client, Timeout: 5 * time.Second}
		for _, s := range reloaded(newSink(t, c), newSink(t, c)) {
			f := failure(t, s, sinkstest.Notification(sinkstest.Confirming()))
			numeric := strings.HasPrefix(host, "2130") || strings.HasPrefix(host, "0x") || host == "127.1" // names to a resolver
			if f.Verdict != sinks.Down || f.Reason != sinks.ReasonBlocked && !numeric {
				t.Errorf("%s gave %s/%s: %v", host, f.Verdict, f.Reason, f)
			}
			if f.Reason == sinks.ReasonBlocked && !strings.Contains(f.Error(), "not allowed") {
				t.Errorf("%s: %q does not say that the address is not allowed", host, f)
			}
		}
	}
	if n := hook.Connections(); n != 0 {
		t.Fatalf("%d connections reached the receiver", n)
	}
	allowed := newSink(t, webhook.Config{URL: secret.New("http://127.0.0.1" + port + "/"), AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	send(t, allowed, sinkstest.Notification(sinkstest.Confirming()))
	other := newSink(t, webhook.Config{URL: secret.New("http://127.0.0.2" + port + "/"), AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	if f := failure(t, other, sinkstest.Notification(sinkstest.Confirming())); f.Reason != sinks.ReasonBlocked {
		t.Errorf("127.0.0.2 gave %v", f)
	}
}

func TestB17_IPv6Literals(t *testing.T) {
	hook, err := sinkfakes.NewHook("[::1]:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hook.Close() })
	s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/h")), AllowCIDRs: loopback()})
	send(t, s, sinkstest.Notification(sinkstest.Confirming()))
	got := hook.Received()[0]
	if want := strings.TrimPrefix(hook.URL(""), "http://"); got.Host != want || !strings.HasPrefix(got.Host, "[::1]:") {
		t.Errorf("Host is %q, want %q", got.Host, want)
	}
}

// verify checks a delivery as the documentation tells receivers to, with code of
// its own.
func verify(t *testing.T, r sinkfakes.Request, key []byte) bool {
	t.Helper()
	return verifyParts(r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), r.Header.Get("webhook-signature"), r.Body, key)
}

func verifyParts(id, timestamp, signatures string, body, key []byte) bool {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	want := mac.Sum(nil)
	for one := range strings.SplitSeq(signatures, " ") {
		encoded, ok := strings.CutPrefix(one, "v1,")
		got, err := base64.StdEncoding.DecodeString(encoded)
		if ok && err == nil && hmac.Equal(got, want) {
			return true
		}
	}
	return false
}

func TestB18_SignatureCoversTheExactBytes(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	hook := newHook(t)
	s := newSink(t, webhook.Config{
		URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(),
		Secrets: keys("whsec_" + base64.StdEncoding.EncodeToString(key)),
	})
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"Müller & Söhne <b>", "\u2028", "/", "9007199254740993", "😀", "\u2029", "\\", `"`, "राम", "\n"}
	const payloads = 500
	for range payloads {
		e := sinkstest.Confirming()
		e.Purchase.Merchant.Name = ""
		for range random.IntN(6) {
			e.Purchase.Merchant.Name += pieces[random.IntN(len(pieces))]
		}
		e.Purchase.Amount.Minor = 9007199254740993
		send(t, s, sinkstest.Notification(e))
	}
	received := hook.Received()
	if len(received) != payloads {
		t.Fatalf("%d deliveries, want %d", len(received), payloads)
	}
	for _, r := range received {
		id, at, sig := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), r.Header.Get("webhook-signature")
		if !verify(t, r, key) {
			t.Fatalf("a delivery does not verify: %s", r.Body)
		}
		flipped := bytes.Clone(r.Body)
		flipped[random.IntN(len(flipped))] ^= 1
		if verifyParts(id+"x", at, sig, r.Body, key) || verifyParts(id, "1"+at, sig, r.Body, key) || verifyParts(id, at, sig, flipped, key) {
			t.Fatal("a changed delivery verifies")
		}
		if !bytes.Contains(r.Body, []byte("9007199254740993")) {
			t.Fatal("the amount lost digits")
		}
	}
}

// The example that the specification of Standard Webhooks' libraries gives.
func TestSignKnownAnswer(t *testing.T) {
	got, err := webhook.Sign([]secret.Value{secret.New("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")},
		"msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; err != nil || got != want {
		t.Errorf("Sign = %q, %v; want %q", got, err, want)
	}
}

func TestSignEd25519(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{"seed": private.Seed(), "private key": private} {
		got, err := webhook.Sign([]secret.Value{secret.New("whsk_" + base64.StdEncoding.EncodeToString(raw))}, "id", time.Unix(5, 0), []byte("body"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		signature, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(got, "v1a,"))
		if err != nil || !ed25519.Verify(public, []byte("id.5.body"), signature) {
			t.Errorf("%s: %q does not verify", name, got)
		}
	}
}

func TestSignRefusesBrokenSecrets(t *testing.T) {
	for _, text := range []string{"whsec_", "whsec_???" + sinkstest.Canary, "whsk_AAAA", "whsk_" + sinkstest.Canary + "!", ""} {
		_, err := webhook.Sign([]secret.Value{secret.New(text)}, "id", now(), nil)
		if err == nil || strings.Contains(err.Error(), sinkstest.Canary) {
			t.Errorf("Sign with %q: %v", text, err)
		}
	}
}

func TestB19_RotationSignsWithEverySecret(t *testing.T) {
	hook := newHook(t)
	older, newer := "whsec_"+base64.StdEncoding.EncodeToString([]byte("older-key-older-key-older")), "plain text as a key"
	active := []string{older, newer}
	s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Secrets: func(ctx context.Context) ([]secret.Value, error) {
		return keys(active...)(ctx)
	}})
	for range 20 {
		send(t, s, sinkstest.Notification(sinkstest.Confirming()))
	}
	active = []string{newer}
	for range 20 {
		send(t, s, sinkstest.Notification(sinkstest.Confirming()))
	}
	for i, r := range hook.Received() {
		if got := verify(t, r, []byte("older-key-older-key-older")); got != (i < 20) {
			t.Errorf("delivery %d verifies with the older key: %v", i, got)
		}
		if !verify(t, r, []byte("plain text as a key")) {
			t.Errorf("delivery %d does not verify with the newer key", i)
		}
	}
}

func TestB22_DigitsPassUnchanged(t *testing.T) {
	hook := newHook(t)
	for _, mode := range []webhook.Mode{webhook.ModeStructured, webhook.ModeBinary} {
		s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Mode: mode})
		e := sinkstest.Confirming()
		e.Purchase.Amount.Minor = 9007199254740993
		e.Purchase.MoneyStatus.Paid = &events.Amount{Minor: 9007199254740993, Currency: "INR"}
		send(t, s, sinkstest.Notification(e))
	}
	for _, r := range hook.Received() {
		body := string(r.Body)
		if strings.Count(body, "9007199254740993") != 2 || strings.Contains(body, "9007199254740992") || strings.Contains(body, "e+") {
			t.Errorf("digits changed: %s", body)
		}
	}
}

func TestB23_ZeroNullAndMissingStayApart(t *testing.T) {
	hook := newHook(t)
	s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback()})
	no := false
	change := []func(p *events.Purchase){
		func(p *events.Purchase) {
			p.MoneyStatus.Paid, p.PaymentReady.Closed = &events.Amount{Currency: "INR"}, &no
		},
		func(p *events.Purchase) { p.MoneyStatus.Paid, p.PaymentReady.Closed, p.Funding = nil, nil, nil },
	}
	var bodies []map[string]any
	for _, f := range change {
		e := sinkstest.Confirming()
		f(e.Purchase)
		send(t, s, sinkstest.Notification(e))
		all := hook.Received()
		var body map[string]any
		if err := json.Unmarshal(all[len(all)-1].Body, &body); err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, body["data"].(map[string]any))
	}
	first, second := bodies[0], bodies[1]
	if paid, ok := first["money_status"].(map[string]any)["paid"].(map[string]any); !ok || paid["minor"] != 0.0 {
		t.Errorf("zero was lost: %v", first["money_status"])
	}
	if closed, there := first["payment_ready"].(map[string]any)["closed"]; !there || closed != false {
		t.Errorf("false was lost: %v", first["payment_ready"])
	}
	if paid, there := second["money_status"].(map[string]any)["paid"]; !there || paid != nil {
		t.Errorf("null was lost: %v", second["money_status"])
	}
	if _, there := second["payment_ready"].(map[string]any)["closed"]; there {
		t.Errorf("a missing value appeared: %v", second["payment_ready"])
	}
	if _, there := second["funding"]; there {
		t.Errorf("a missing value appeared: %v", second)
	}
}
