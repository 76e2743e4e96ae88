package e2e_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
)

const slackToken = "xoxb-0000-end-to-end-canary"

// fleet configures n connections, each of a user of its own, with the given
// sinks and subscriptions.
func (w *world) fleet(n int, sinks string) string {
	w.t.Helper()
	dir := filepath.Dir(w.config("fleet", places{}))
	var b strings.Builder
	fmt.Fprintf(&b, "data_dir: %s/data\nhttp: { listen: \"127.0.0.1:0\" }\nlog: { level: debug, format: json }\nshutdown_grace: 5s\n", dir)
	b.WriteString("watch: { requests_per_minute: 120, look_every: 1s, discover_every: 1s }\nconnections:\n")
	for i := range n {
		name := fmt.Sprintf("host-%d", i)
		w.write(dir, name, w.sim.AddToken(name, "origin:https://host.example.test"))
		fmt.Fprintf(&b, "  - { name: %s, base_url: %q, token: \"file:%s\" }\n", name, w.envoy.URL, name)
	}
	b.WriteString(sinks)
	return w.write(dir, "fleet.yaml", b.String())
}

// changeAll gives each user of the fleet a purchase, waits until all are held,
// and moves them.
func (w *world) changeAll(n int, to envoysim.State, details func() string) []string {
	w.t.Helper()
	ids := make([]string, n)
	for i := range n {
		var err error
		ids[i], err = w.sim.Put(fmt.Sprintf("host-%d", i), envoysim.Purchase{
			State: envoysim.Processing, Rail: envoysim.OperatedCheckout, CheckoutBy: envoysim.ByEnvoy,
			MerchantName: "Example Store", MerchantURL: "https://shop.example.test", Amount: 249900,
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	await(w.t, 60*time.Second, "all purchases are held", func() bool { return w.sim.Holds() >= n }, details)
	for _, id := range ids {
		w.move(id, to)
	}
	return ids
}

func newSlack(t *testing.T) *sinkfakes.Slack {
	t.Helper()
	s, err := sinkfakes.NewSlack("127.0.0.1:0", nil, sinkfakes.SlackOptions{
		Token: slackToken, Channels: []string{"C0000000001"}, WebhookPath: "/services/T0/B0/canary",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

const everything = `type == "money.envoy.purchase.changed.v1"`

// Slack's Retry-After is kept, for the whole channel, and costs no other sink anything.
func TestB03_SlackRetryAfterIsKept(t *testing.T) {
	const n = 20
	w := newWorld(t)
	slack := newSlack(t)
	slow := sinkfakes.Answer{Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "3"}}
	slack.Script(slow, slow)
	dir := filepath.Join(w.dir, "fleet")
	file := w.fleet(n, fmt.Sprintf(`sinks:
  - { name: ops, slack: { bot_token: "file:slack", channel: C0000000001, api_url: %q } }
  - { name: orders, webhook: { url: %q, secrets: ["file:hook"], allow_cidrs: [127.0.0.0/8] } }
subscriptions:
  - { name: all, match: '%s', sinks: [ops, orders] }
`, slack.APIURL(), w.hook.URL("/hooks"), everything))
	w.write(dir, "slack", slackToken)
	h := w.start("herald", "run", "-c", file)
	h.says(`"msg":"running"`)
	ids := w.changeAll(n, envoysim.Verifying, h.out.String)
	moved := time.Now()
	await(t, 30*time.Second, "the webhook has all", func() bool { return len(w.accepted()) >= n }, h.out.String)
	if took := time.Since(moved); took > 10*time.Second {
		t.Errorf("the webhook waited for Slack: %s", took)
	}
	await(t, 120*time.Second, "Slack has all", func() bool { return len(about(slack, ids)) == n }, h.out.String)
	var until time.Time
	for _, r := range slack.Received() {
		if r.At.Before(until) {
			t.Errorf("a post %s before Slack wanted one", until.Sub(r.At))
		}
		if r.Status == http.StatusTooManyRequests {
			until = r.At.Add(3 * time.Second)
		}
	}
	for id, posts := range about(slack, ids) {
		if posts != 1 {
			t.Errorf("%s was posted %d times", id, posts)
		}
	}
}

// about counts the posts of each purchase.
func about(s *sinkfakes.Slack, ids []string) map[string]int {
	out := map[string]int{}
	for _, p := range s.Posts() {
		for _, id := range ids {
			if strings.Contains(string(p.Raw), id) {
				out[id]++
			}
		}
	}
	return out
}

// What looks like success and is none is not booked as sent; a channel that does
// not exist ends in the dead letters with Slack's own word.
func TestB04_AnAnswerThatOnlyLooksFine(t *testing.T) {
	w := newWorld(t)
	slack, page, hop := newSlack(t), newSlack(t), newSlack(t)
	page.Always(&sinkfakes.Answer{Status: http.StatusOK, Header: map[string]string{"Content-Type": "text/html"}, Body: "<html>signed out</html>"})
	hop.Always(&sinkfakes.Answer{Status: http.StatusFound, Header: map[string]string{"Location": w.hook.URL("/elsewhere")}})
	dir := filepath.Join(w.dir, "fleet")
	file := w.fleet(1, fmt.Sprintf(`sinks:
  - { name: gone, retry: { schedule: [200ms, 400ms, 800ms] }, slack: { bot_token: "file:slack", channel: C0000000009, api_url: %q } }
  - { name: page, retry: { schedule: [200ms, 400ms, 800ms] }, slack: { bot_token: "file:slack", channel: C0000000001, api_url: %q } }
  - { name: hop, retry: { schedule: [200ms, 400ms, 800ms] }, slack: { webhook_url: "file:incoming", api_url: %q } }
subscriptions:
  - { name: all, match: '%s', sinks: [gone, page, hop] }
`, slack.APIURL(), page.APIURL(), hop.APIURL(), everything))
	w.write(dir, "slack", slackToken)
	w.write(dir, "incoming", hop.WebhookURL())
	h := w.start("herald", "run", "-c", file)
	addr := listenAddr(t, h)
	h.says(`"msg":"running"`)
	w.changeAll(1, envoysim.Completed, h.out.String)
	await(t, 60*time.Second, "the event is a dead letter with Slack's word", func() bool {
		return strings.Contains(fetch(t, addr+"/v1/dead?sink=gone"), "channel_not_found")
	}, h.out.String)
	await(t, 60*time.Second, "all three have failed", func() bool {
		return len(page.Received()) > 0 && len(hop.Received()) > 0
	}, h.out.String)
	for _, sink := range []string{"gone", "page", "hop"} {
		if n := gauge(addr, fmt.Sprintf("herald_deliver_sent_total{sink=%q}", sink)); n != "0" {
			t.Errorf("%s has sent %s", sink, n)
		}
		if failures(fetch(t, addr+"/metrics"), sink) == 0 {
			t.Errorf("%s has not failed", sink)
		}
	}
	if n := len(slack.Received()); n > 3 {
		t.Errorf("%d posts to a channel that does not exist", n)
	}
	if n := len(w.hook.Received()); n != 0 {
		t.Errorf("the redirect was followed: %d requests", n)
	}
}

func fetch(t *testing.T, address string) string {
	t.Helper()
	resp, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	return readBody(t, resp)
}

// mailbox starts a mail server and gives its block of configuration.
func mailbox(t *testing.T, o sinkfakes.SMTPOptions) *sinkfakes.SMTP {
	t.Helper()
	m, err := sinkfakes.NewSMTP("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// An SMTP 4xx is tried again, a 5xx is not and ends in the dead letters with its code.
func TestB09_SMTPTemporaryAndPermanent(t *testing.T) {
	for name, c := range map[string]struct {
		command, reply string
		mails, tries   int
		code           string
	}{
		"451 once":       {"RCPT", "451 4.3.0 try later", 1, 2, ""},
		"550 after RCPT": {"RCPT", "550 5.1.1 no such user", 0, 1, "550"},
		"554 after DATA": {".", "554 5.6.0 refused", 0, 1, "554"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := mailbox(t, sinkfakes.SMTPOptions{})
			m.Script(c.command, c.reply)
			file := w.fleet(1, fmt.Sprintf(`sinks:
  - name: mail
    retry: { schedule: [200ms, 400ms, 800ms] }
    email: { smtp: "smtp+plain://127.0.0.1:%d", from: herald@ops.example.com, to: [oncall@ops.example.com] }
subscriptions:
  - { name: all, match: '%s', sinks: [mail] }
`, m.Port(), everything))
			h := w.start("herald", "run", "-c", file)
			addr := listenAddr(t, h)
			h.says(`"msg":"running"`)
			w.changeAll(1, envoysim.Verifying, h.out.String)
			if c.code == "" {
				await(t, 60*time.Second, "the mail arrives", func() bool { return len(m.Mails()) == c.mails }, h.out.String)
			} else {
				await(t, 60*time.Second, "it is a dead letter with the code", func() bool {
					return strings.Contains(fetch(t, addr+"/v1/dead?sink=mail"), c.code)
				}, h.out.String)
			}
			tries := 0
			for _, line := range m.Lines() {
				if strings.HasPrefix(strings.ToUpper(line), "MAIL FROM") {
					tries++
				}
			}
			if tries != c.tries || len(m.Mails()) != c.mails {
				t.Errorf("%d tries and %d mails, want %d and %d\n%s", tries, len(m.Mails()), c.tries, c.mails, h.out)
			}
		})
	}
}

// A password reaches the server byte for byte, however it is given.
func TestB36_PasswordByteForByte(t *testing.T) {
	const password = "pa$$w0rd$HOME${x}#1:'\""
	authority, err := sinkfakes.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	server, err := authority.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	sinks := func(port int, reference string) string {
		return fmt.Sprintf(`sinks:
  - name: mail
    email: { smtp: "smtps://127.0.0.1:%d", username: herald, password: %q, from: herald@ops.example.com, to: [oncall@ops.example.com], tls: { ca: ca.pem } }
subscriptions:
  - { name: all, match: '%s', sinks: [mail] }
`, port, reference, everything)
	}
	t.Setenv("HERALD_TEST_PASSWORD", password)
	for _, reference := range []string{"env:HERALD_TEST_PASSWORD", "file:password", `command:[cat, password-path]`} {
		t.Run(strings.SplitN(reference, ":", 2)[0], func(t *testing.T) {
			w := newWorld(t)
			m := mailbox(t, sinkfakes.SMTPOptions{TLS: server, Implicit: true, Username: "herald", Password: password})
			dir := filepath.Join(w.dir, "fleet")
			reference := strings.ReplaceAll(reference, "password-path", filepath.Join(dir, "password"))
			file := w.fleet(1, sinks(m.Port(), reference))
			w.write(dir, "password", password)
			w.write(dir, "ca.pem", string(authority.PEM()))
			h := w.start("herald", "run", "-c", file)
			h.says(`"msg":"running"`)
			w.changeAll(1, envoysim.Verifying, h.out.String)
			await(t, 60*time.Second, "the mail arrives", func() bool { return len(m.Mails()) == 1 }, h.out.String)
			if got := m.Logins(); !slices.Equal(got[:1], []string{"herald\x00" + password}) {
				t.Errorf("the server was given %q", got)
			}
			if strings.Contains(h.out.String(), password) {
				t.Error("the password is in the log")
			}
		})
	}
	w := newWorld(t)
	w.write(filepath.Join(filepath.Dir(w.fleet(1, ""))), "ca.pem", string(authority.PEM()))
	file := w.fleet(1, sinks(1, "env:HERALD_TEST_UNSET"))
	p := w.start("herald", "run", "-c", file)
	if code := p.exit(); code != 2 || !strings.Contains(p.out.String(), "HERALD_TEST_UNSET") {
		t.Errorf("an unset variable: exit code %d\n%s", code, p.out)
	}
}
