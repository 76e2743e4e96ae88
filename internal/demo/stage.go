package demo

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
)

// Sizes of the demo: enough users that something always happens, few enough to
// be read.
const (
	users     = 5
	slackTok  = "xoxb-demo-0000-canary-slack-token"
	mailPass  = "demo-canary-mail-password"
	hookKey   = "herald-demo-signing-key-32-bytes"
	channelID = "C0DEMO00001"
)

// stage is everything that is not Herald: Envoy, its people and the receivers.
type stage struct {
	sim     *envoysim.Sim
	envoy   *http.Server
	slack   *sinkfakes.Slack
	mail    *sinkfakes.SMTP
	hook    *sinkfakes.Hook
	file    string // the configuration
	stores  string // lines of the configuration that place NATS and Redis elsewhere; empty: embedded
	tokens  []string
	address string // of the stand-in
	wg      sync.WaitGroup
	undo    []func() error
}

// newStage builds a stage under dir. With stores, lines of configuration, NATS
// and Redis are elsewhere.
func newStage(ctx context.Context, dir string, seed uint64, stores string) (_ *stage, err error) {
	if seed == 0 {
		seed = rand.Uint64()
	}
	st := &stage{stores: stores}
	defer func() {
		if err != nil {
			st.close()
		}
	}()
	if st.sim, err = envoysim.New(envoysim.Options{Seed: seed, Speed: 4, Quirks: envoysim.DefaultQuirks()}); err != nil {
		return nil, fmt.Errorf("build stand-in for Envoy: %w", err)
	}
	base, err := st.serveEnvoy(ctx)
	if err != nil {
		return nil, err
	}
	for i := range users {
		user := fmt.Sprintf("user-%d", i+1)
		st.sim.AddUser(user)
		token := st.sim.AddToken(user, "origin:https://host.example.test")
		st.tokens = append(st.tokens, token)
		if err := st.sim.AddAgent(envoysim.Agent{Token: token, Every: 12 * time.Second}); err != nil {
			return nil, fmt.Errorf("add agent: %w", err)
		}
	}
	ca, err := st.receivers() //nolint:contextcheck // stand-ins live until they are closed, not as long as a context
	if err != nil {
		return nil, err
	}
	return st, st.configure(dir, base, ca)
}

func (st *stage) serveEnvoy(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for the stand-in: %w", err)
	}
	st.envoy = &http.Server{Handler: st.sim.Handler(), ReadHeaderTimeout: 10 * time.Second}
	st.wg.Go(func() { _ = st.envoy.Serve(l) })
	st.undo = append(st.undo, st.envoy.Close)
	st.address = l.Addr().String()
	return "http://" + st.address, nil
}

// receivers starts Slack, the mailbox and the webhook endpoint, and gives the
// certificate that the mailbox is signed with.
func (st *stage) receivers() (ca []byte, err error) {
	const loopback = "127.0.0.1:0"
	st.slack, err = sinkfakes.NewSlack(loopback, nil, sinkfakes.SlackOptions{Token: slackTok, Channels: []string{channelID}})
	if err != nil {
		return nil, fmt.Errorf("start slack: %w", err)
	}
	st.undo = append(st.undo, st.slack.Close)
	authority, err := sinkfakes.NewAuthority()
	if err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	tlsConfig, err := authority.Server("127.0.0.1")
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	st.mail, err = sinkfakes.NewSMTP(loopback, sinkfakes.SMTPOptions{
		TLS: tlsConfig, STARTTLS: true, Username: "herald", Password: mailPass, Checks: true,
	})
	if err != nil {
		return nil, fmt.Errorf("start mailbox: %w", err)
	}
	st.undo = append(st.undo, st.mail.Close)
	if st.hook, err = sinkfakes.NewHook(loopback, nil); err != nil {
		return nil, fmt.Errorf("start webhook receiver: %w", err)
	}
	st.undo = append(st.undo, st.hook.Close)
	return authority.PEM(), nil
}

// configure writes the configuration as a user would, with its secrets in files.
func (st *stage) configure(dir, base string, ca []byte) error {
	secrets := map[string]string{
		"slack": slackTok, "mail": mailPass, "ca.pem": string(ca),
		"hook": "whsec_" + base64.StdEncoding.EncodeToString([]byte(hookKey)),
	}
	var conns strings.Builder
	for i, token := range st.tokens {
		name := fmt.Sprintf("host-%d", i+1)
		secrets[name] = token
		fmt.Fprintf(&conns, "  - { name: %s, base_url: %q, token: \"file:%s\" }\n", name, base, filepath.Join(dir, "secrets", name))
	}
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	for name, text := range secrets {
		if err := os.WriteFile(filepath.Join(dir, "secrets", name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write secret: %w", err)
		}
	}
	text := strings.NewReplacer(
		"@stores", st.stores, "@dir", dir, "@connections", conns.String(), "@slack", st.slack.APIURL(), "@channel", channelID,
		"@mail", fmt.Sprintf("smtp://127.0.0.1:%d", st.mail.Port()), "@hook", st.hook.URL("/hooks/orders"),
	).Replace(configuration)
	st.file = filepath.Join(dir, "herald.yaml")
	if err := os.WriteFile(st.file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// configuration is a small Herald with the alarm that it is made for. Paces are
// faster than by default, so that a minute shows something.
const configuration = `@stores
data_dir: @dir/data
http: { listen: "127.0.0.1:0" }
shutdown_grace: 5s
connections:
@connections
watch: { requests_per_minute: 100, look_every: 1s, discover_every: 2s }
sinks:
  - name: ops-slack
    slack: { bot_token: "file:@dir/secrets/slack", channel: @channel, api_url: "@slack", mention: "<!here>" }
  - name: ops-email
    email:
      smtp: "@mail"
      username: herald
      password: "file:@dir/secrets/mail"
      from: Herald <herald@ops.example.com>
      to: [Payments on call <payments-oncall@ops.example.com>]
      tls: { ca: "@dir/secrets/ca.pem" }
  - name: orders
    webhook: { url: "@hook", secrets: ["file:@dir/secrets/hook"], allow_cidrs: [127.0.0.0/8] }
subscriptions:
  - name: unsettled
    match: unsettled
    for: 3s
    urgent: situation == "needs_support"
    repeat: 20s
    resolve: true
    sinks: [ops-slack, ops-email]
  - name: orders
    match: type == "money.envoy.purchase.changed.v1"
    sinks: [orders]
`

// close ends everything in reverse order; what ends twice is no error here.
func (st *stage) close() {
	var errs []error
	for i := len(st.undo) - 1; i >= 0; i-- {
		errs = append(errs, st.undo[i]())
	}
	st.undo = nil
	_ = errors.Join(errs...)
	st.wg.Wait()
}
