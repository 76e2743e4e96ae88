package webhook_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
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

func TestB39_NoErrorShowsSecretPartsOfTheURL(t *testing.T) {
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = refused.Close()
	plain, silent := newHook(t), newHook(t)
	silent.Always(&sinkfakes.Answer{Handler: sinkfakes.Hang})
	plain.Always(&sinkfakes.Answer{Handler: echo(404)})
	path := "/hook/" + canaryPath + "?token=" + canaryQuery
	user := "user:" + canaryUser + "@"
	basic := base64.StdEncoding.EncodeToString([]byte("user:" + canaryUser))
	dns, err := sinkfakes.NewDNS(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dns.Close() })
	client, err := sinks.NewHTTPClient(sinks.ClientOptions{AllowCIDRs: loopback(), Resolver: dns.Resolver()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	for name, c := range map[string]struct {
		url    string
		reason sinks.Reason
	}{
		"refused port": {"http://" + user + refused.Addr().String() + path, sinks.ReasonDial},
		"unknown host": {"http://" + user + "nowhere.invalid" + path, sinks.ReasonDNS},
		"tls":          {"https://" + user + strings.TrimPrefix(plain.URL(path), "http://"), sinks.ReasonTLS},
		"timeout":      {"http://" + user + strings.TrimPrefix(silent.URL(path), "http://"), sinks.ReasonTimeout},
		"not found":    {"http://" + user + strings.TrimPrefix(plain.URL(path), "http://"), sinks.ReasonStatus},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSink(t, webhook.Config{URL: secret.New(c.url), Client: client, Timeout: time.Second, Secrets: keys(canarySecret)})
			f := failure(t, s, sinkstest.Notification(sinkstest.Confirming()))
			for _, shown := range []string{f.Error(), fmt.Sprintf("%v %+v %#v %s", f, f, f, f.Err)} {
				if strings.Contains(shown, sinkstest.Canary) || strings.Contains(shown, basic) {
					t.Errorf("a secret shows: %s", shown)
				}
			}
			if f.Reason != c.reason || !strings.Contains(f.Error(), sinkstest.SinkName) {
				t.Errorf("failure is %s: %v, want %s and the sink's name", f.Reason, f, c.reason)
			}
		})
	}
	for _, text := range []string{"http://user:" + canaryUser + "@[::1/" + canaryPath, "ftp://x/" + canaryPath, canaryPath, "http:///" + canaryPath, "http://h/%zz" + canaryPath} {
		_, err := webhook.New(webhook.Config{Name: sinkstest.SinkName, URL: secret.New(text)})
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), sinkstest.Canary) || !strings.Contains(err.Error(), sinkstest.SinkName) {
			t.Errorf("a malformed URL gave %v", err)
		}
	}
}

func TestB40_OnlyTheStrippedEventGoesOut(t *testing.T) {
	hook := newHook(t)
	s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Secrets: keys("the key")})
	e := sinkstest.Confirming()
	e.Purchase.Description = sinkstest.Canary
	e.Purchase.Question = &events.Question{ID: "q1", Prompt: sinkstest.Canary}
	e.Purchase.MoneyStatus.MerchantOrderRef = sinkstest.Canary
	send(t, s, sinkstest.Notification(events.ForSink(e, nil)))
	r := hook.Received()[0]
	if bytes.Contains(bytes.ToLower(r.Body), bytes.ToLower([]byte(sinkstest.Canary))) {
		t.Errorf("a personal field went out: %s", r.Body)
	}
	if !bytes.Contains(r.Body, []byte(e.Purchase.Merchant.Name)) || !verify(t, r, []byte("the key")) {
		t.Errorf("the neighbours are gone or the signature does not fit: %s", r.Body)
	}
}

func TestB40_NoSecretOfAnyTextGoesOut(t *testing.T) {
	for name, c := range map[string]webhook.Config{
		"structured": {}, "binary": {Mode: webhook.ModeBinary}, "pagerduty": {Preset: webhook.PresetPagerDuty},
		"teams": {Preset: webhook.PresetTeams}, "discord": {Preset: webhook.PresetDiscord}, "ntfy": {Preset: webhook.PresetNtfy},
	} {
		t.Run(name, func(t *testing.T) {
			hook := newHook(t)
			c.URL, c.AllowCIDRs, c.Secrets = secret.New(hook.URL("/")), loopback(), keys("the key")
			send(t, newSink(t, c), sinkstest.Notification(sinkstest.Leaky()))
			r := hook.Received()[0]
			sinkstest.Stripped(t, fmt.Sprint(r.Header)+string(r.Body))
			if c.Preset == "" && !verify(t, r, []byte("the key")) {
				t.Error("the signature does not fit the stripped body")
			}
		})
	}
}

// What the stored bytes hold beyond the fields of this version was judged by nobody:
// a newer watcher's members at every depth, one that is there twice, one in other letters.
func TestB40_MembersThatAreNotKnownStayOut(t *testing.T) {
	stored, err := events.Encode(sinkstest.Confirming())
	if err != nil {
		t.Fatal(err)
	}
	newer := inserted(t, string(stored), [][2]string{
		{`{"specversion"`, `{"card":"` + sinkstest.Canary + `","specversion"`},
		{`"data":{`, `"data":{"payment":{"card_token":"` + sinkstest.Canary + `"},"items":[{},{"meta":{"apiKey":"` + sinkstest.Canary + `"}}],`},
		{`"merchant":{`, `"merchant":{"Authorization":"Bearer ` + sinkstest.Canary + `",`},
		{`"url":"`, `"see":"https://x.test/?sig=` + sinkstest.Canary + `","url":"`},
	})
	event, document, err := events.Read([]byte(newer))
	if err != nil {
		t.Fatal(err)
	}
	for _, odd := range []string{`"DESCRIPTION":"`, `"description":"`} {
		twice := inserted(t, string(stored), [][2]string{{`"description":"`, odd + sinkstest.Canary + `","description":"`}})
		if e, d, err := events.Read([]byte(twice)); err == nil && (d.Bytes() != nil || e.Purchase.Description == sinkstest.Canary) {
			t.Errorf("a member that is there twice counts: %s", d.Bytes())
		}
	}
	for _, mode := range []webhook.Mode{webhook.ModeStructured, webhook.ModeBinary} {
		hook := newHook(t)
		s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Secrets: keys("the key"), Mode: mode})
		n := sinkstest.Notification(event)
		n.Document = document
		send(t, s, n)
		r := hook.Received()[0]
		if all := strings.ToLower(fmt.Sprint(r.Header) + string(r.Body)); strings.Contains(all, strings.ToLower(sinkstest.Canary)) {
			t.Errorf("%s: a member that is not known went out: %s", mode, all)
		}
		if !bytes.Contains(r.Body, []byte(`"name":"Example Store"`)) || !verify(t, r, []byte("the key")) {
			t.Errorf("%s: the neighbours are gone or the signature does not fit: %s", mode, r.Body)
		}
	}
}

// What holds nothing else goes out as it is stored.
func TestStoredBytesGoOutAsTheyAre(t *testing.T) {
	good, err := events.Encode(sinkstest.Confirming())
	if err != nil {
		t.Fatal(err)
	}
	stored := bytes.Replace(good, []byte(`"data":`), []byte(`  "data": `), 1)
	event, document, err := events.Read(stored)
	if err != nil {
		t.Fatal(err)
	}
	hook := newHook(t)
	s := newSink(t, webhook.Config{URL: secret.New(hook.URL("/")), AllowCIDRs: loopback(), Secrets: keys("the key")})
	n := sinkstest.Notification(event)
	n.Document = document
	send(t, s, n)
	if got := hook.Received()[0].Body; !bytes.Equal(got, stored) {
		t.Errorf("sent %s\nstored %s", got, stored)
	}
}

// inserted replaces the first of each text, which has to be there.
func inserted(t *testing.T, text string, changes [][2]string) string {
	t.Helper()
	for _, c := range changes {
		if !strings.Contains(text, c[0]) {
			t.Fatalf("the sample has no %s", c[0])
		}
		text = strings.Replace(text, c[0], c[1], 1)
	}
	return text
}
