package config

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	cfg, err := Parse("herald.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestDefaultsAreSound(t *testing.T) {
	if err := Defaults().Validate(); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "\xef\xbb\xbf", "log:\nsinks:\n# - name: x\n", "{}\n"} {
		cfg, err := Parse("herald.yaml", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		cfg.file, cfg.places, cfg.failed = "", nil, nil
		if !reflect.DeepEqual(cfg, Defaults()) {
			t.Errorf("%q: %+v", text, cfg)
		}
	}
}

func TestValuesArrive(t *testing.T) {
	cfg := loadWithStandIns(t, "herald.example.yaml")
	orders := cfg.Sinks[3]
	checks := []struct {
		name      string
		got, want any
	}{
		{"size", cfg.NATS.MaxBytes, Size(10 << 30)},
		{"duration", cfg.NATS.Retention, Duration(168 * time.Hour)},
		{"enum", cfg.NATS.Sync, SyncInterval},
		{"proof", cfg.Connections[0].Proof.Command[0], "envoy-proof"},
		{"number", cfg.Watch.RequestsPerMinute, 40},
		{"kind", orders.Kind(), KindWebhook},
		{"schedule", orders.Retry.Schedule[6], Duration(5 * time.Hour)},
		{"jitter", orders.Retry.Jitter, 0.2},
		{"concurrency written", orders.Concurrency, 16},
		{"concurrency of slack", cfg.Sinks[0].Concurrency, 1},
		{"concurrency of email", cfg.Sinks[2].Concurrency, 2},
		{"concurrency of webhook", cfg.Sinks[4].Concurrency, 16},
		{"default inside a sink", cfg.Sinks[4].Webhook.Timeout, Duration(10 * time.Second)},
		{"header", orders.Webhook.Headers["X-Team"].Plain, "payments"},
		{"quoted", cfg.Sinks[0].Slack.Mention, "<!subteam^S0123456789>"},
		{"expression", cfg.Subscriptions[0].Urgent.Text, `situation == "needs_support"`},
		{"flag", cfg.Subscriptions[0].Resolve, true},
		{"list", strings.Join(cfg.Subscriptions[2].Sinks, " "), "ops-slack ops-slack-simple"},
		{"personal without the first switch", len(cfg.PersonalFields(orders)), 0},
	}
	for _, c := range checks {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	cfg.Events.IncludePersonal = true
	if got := cfg.PersonalFields(orders); len(got) != 1 || got[0] != PersonalMerchantOrderRef {
		t.Errorf("personal fields %v", got)
	}
}

func TestPlaces(t *testing.T) {
	cfg := mustParse(t, `log: { level: debug }
sinks:
  - name: hook
    webhook:
      url: https://hooks.example.com/
subscriptions:
  - name: all
    match: |
      type == "a" ||
      type == "b"
    urgent: false
    sinks: [hook]
`)
	for path, want := range map[string]string{
		"log":                          "herald.yaml:1:1",
		"log.level":                    "herald.yaml:1:15",
		"log.format":                   "herald.yaml:1:1", // left out: where its section is
		"sinks[0]":                     "herald.yaml:3:5",
		"sinks[0].webhook.url":         "herald.yaml:5:12",
		"sinks[0].webhook.secrets[1]":  "herald.yaml:4:5",
		"subscriptions[0].match":       "herald.yaml:8:12",
		"subscriptions[0].sinks[0]":    "herald.yaml:12:13",
		"nats.url":                     "herald.yaml",
		"subscriptions[7].name.of.one": "herald.yaml:6:1",
	} {
		if got := cfg.At(path).String(); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if e := cfg.Subscriptions[0].Match; e.Text != "type == \"a\" ||\ntype == \"b\"" || e.Pos.String() != "herald.yaml:8:12" {
		t.Errorf("expression %+v", e)
	}
	if e := cfg.Subscriptions[0].Urgent; e.Text != "false" {
		t.Errorf("expression %+v", e)
	}
}

func TestB36_SecretsArriveByteForByte(t *testing.T) {
	const password = `pa$$w0rd$HOME${x}#1:'"`
	dir := t.TempDir()
	place(t, filepath.Join(dir, "password"), password+"\n")
	t.Setenv("HERALD_TEST_PASSWORD", password)
	for _, reference := range []string{
		"env:HERALD_TEST_PASSWORD", "{ env: HERALD_TEST_PASSWORD }", "file:password", "file:" + dir + "/password", "{ file: password }",
		"command:[cat, " + dir + "/password]", "{ command: [cat, " + dir + "/password] }",
	} {
		file := filepath.Join(dir, "herald.yaml")
		place(t, file, "redis: { url: redis://127.0.0.1 }\nhttp:\n  token: "+reference+"\n")
		cfg, err := Load(file)
		if err != nil {
			t.Errorf("%s: %v", reference, err)
			continue
		}
		if v, err := cfg.HTTP.Token.Read(t.Context()); err != nil || v.Reveal() != password {
			t.Errorf("%s: %q %v", reference, v.Reveal(), err)
		}
	}
}

func TestNothingIsExpanded(t *testing.T) {
	t.Setenv("HOME", "/expanded")
	cfg := mustParse(t, `data_dir: $HOME/${HOME}/data
sinks:
  - name: hook
    webhook: { url: "https://hooks.example.com/$HOME", headers: { X-A: $HOME } }
http: { token: "file:/$HOME/x" }
`)
	got := cfg.DataDir + " " + cfg.Sinks[0].Webhook.URL.Plain + " " + cfg.Sinks[0].Webhook.Headers["X-A"].Plain + " " + cfg.HTTP.Token.Path()
	if want := "$HOME/${HOME}/data https://hooks.example.com/$HOME $HOME /$HOME/x"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The numbered mistakes have their full text in testdata.
func TestB36_UnsetVariableIsNamed(t *testing.T) {
	says(t, "secret_unset", "HERALD_TEST_UNSET_VARIABLE is not set")
}

func TestB37_AmbiguousYAMLIsRefused(t *testing.T) {
	says(t, "duration_without_unit", "timeout: a time needs a unit")
	says(t, "text_without_quotes", `"007012" without quotes`)
	says(t, "text_without_quotes", `"1e3" without quotes`)
	says(t, "channel_comment", "channel: is empty")
	says(t, "unknown_key_misspelt", `unknown key "retires"; did you mean "retry"?`)
	says(t, "boolean_yes", `not "yes"; write true`)
	says(t, "number_octal", "begins with 0")
}

func TestB29_ConnectionNamesAreSubjectTokens(t *testing.T) {
	for _, name := range []string{"a.b", "a b", "*", ">", `x\r\nPUB y 0`, "ü", "", strings.Repeat("a", 65)} {
		text := fmt.Sprintf("connections: [{ name: \"%s\", base_url: \"https://api.envoy.money\", token: env:A }]\n", name)
		if _, err := Parse("herald.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "connections[0].name: ") {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"a", "Host_A-1", strings.Repeat("a", 64)} {
		mustParse(t, fmt.Sprintf("connections: [{ name: %q, base_url: \"https://api.envoy.money\", token: env:A }]\n", name))
	}
}

func TestB17_IPv6LiteralsAreTaken(t *testing.T) {
	cfg := mustParse(t, `
nats: { url: "nats://[::1]:4222,nats://[fd00::1]" }
redis: { url: "redis://[::1]:6380/0" }
http: { listen: "[::]:9090", token: env:A }
connections:
  - { name: a, base_url: "http://[::1]:8080", token: env:A }
sinks:
  - name: hook
    webhook: { url: "http://[::1]:8099/h", allow_cidrs: ["::1/128", "fd00::/8"], proxy: "socks5://[::1]:1080" }
  - name: mail
    email: { smtp: "smtp+plain://[::1]:2525", from: a@example.com, to: [b@example.com] }
`)
	if cfg.Sinks[0].Webhook.AllowCIDRs[0].String() != "::1/128" {
		t.Errorf("ranges %v", cfg.Sinks[0].Webhook.AllowCIDRs)
	}
	mustParse(t, "http: { listen: \"[::1]:9090\" }\n") // loopback: no token
	if _, err := Parse("herald.yaml", []byte("http: { listen: \"[::]:9090\" }\n")); err == nil {
		t.Error("all addresses without a token")
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true, "localhost": true, "LOCALHOST": true, "a.localhost": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "example.com": false, "localhost.example.com": false, "127.0.0.1.example.com": false,
	} {
		if isLoopback(host) != want {
			t.Errorf("%q: want %t", host, want)
		}
	}
}

func TestB39_NoPartOfAnAddressIsShown(t *testing.T) {
	says(t, "secret_in_address", "holds a password")
	for _, url := range []string{
		"https://hooks.example.com:canary/x", "ftp://canary", "https://canary space/", "%zzcanary", "https://u:canary@h/#f", "canary",
	} {
		for _, key := range []string{"url", "proxy"} {
			text := fmt.Sprintf("sinks: [{ name: hook, webhook: { url: \"https://a\", %s: %q } }]\n", key, url)
			text = strings.Replace(text, `url: "https://a", url:`, "url:", 1)
			if _, err := Parse("herald.yaml", []byte(text)); err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s %s: %v", key, url, err)
			}
		}
	}
	cfg := mustParse(t, "sinks: [{ name: hook, webhook: { url: https://h/canary, headers: { X-A: canary } } }]\n")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, *cfg.Sinks[0].Webhook); strings.Contains(text, "canary") {
			t.Errorf("prints as %s", text)
		}
	}
}

func says(t *testing.T, fixture, want string) {
	t.Helper()
	_, err := Load(filepath.Join("testdata", fixture+".yaml"))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v; want %s", fixture, err, want)
	}
}

func TestErrorsUnwrap(t *testing.T) {
	_, err := Load("testdata/wrong_type.yaml")
	err = fmt.Errorf("load configuration: %w", err)
	var all Errors
	var one Error
	if !errors.As(err, &all) || !errors.As(err, &one) || one != all[0] || len(all) < 5 {
		t.Errorf("%v", err)
	}
	if _, err := Load("testdata/no-such-file.yaml"); err == nil || !strings.Contains(err.Error(), "no-such-file.yaml: cannot open: no such file") {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Load("testdata"); err == nil {
		t.Error("a folder was loaded")
	}
	if _, err := Parse("big.yaml", make([]byte, maxFileSize+1)); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("large file: %v", err)
	}
}

func TestWarnings(t *testing.T) {
	cfg := mustParse(t, `watch: { hold_through_ready: true }
sinks:
  - name: hook
    webhook: { url: https://hooks.example.com/, personal: [description] }
  - name: mail
    email: { smtp: smtp+plain://10.0.0.1, from: a@example.com, to: [b@example.com] }
subscriptions: [{ name: a, match: true, sinks: [mail] }]
`)
	got := cfg.Warnings().Error()
	for _, want := range []string{
		"herald.yaml:1:30: watch.hold_through_ready: ", "no subscription sends anything to \"hook\"", "personal: has no effect",
		"deliveries are not signed", "mails travel in clear",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if n := len(cfg.Warnings()); n != 5 {
		t.Errorf("%d warnings", n)
	}
}

// TestProgramsCanMakeConfigurations builds one without a file, as the demonstration does.
func TestProgramsCanMakeConfigurations(t *testing.T) {
	cfg := Defaults()
	sink := DefaultSink(KindWebhook)
	sink.Name, sink.Webhook.URL = "hook", PlainText("http://127.0.0.1:1/")
	cfg.Sinks = []Sink{sink}
	cfg.Subscriptions = []Subscription{{Name: "all", Match: Expr{Text: "true"}, Sinks: []string{"hook"}}}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	cfg.Log.Level, cfg.Sinks[0].Webhook.Mode, cfg.Subscriptions[0].Sinks = "loud", "", []string{"hok"}
	err := cfg.Validate()
	for _, want := range []string{"log.level: ", "sinks[0].webhook.mode: ", `no sink "hok"; did you mean "hook"?`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func TestTextReads(t *testing.T) {
	t.Setenv("HERALD_TEST_TEXT", "from outside")
	cfg := mustParse(t, "sinks: [{ name: a, webhook: { url: env:HERALD_TEST_TEXT } }, { name: b, webhook: { url: https://plain } }]\n")
	for i, want := range []string{"from outside", "https://plain"} {
		if v, err := cfg.Sinks[i].Webhook.URL.Read(context.Background()); err != nil || v.Reveal() != want {
			t.Errorf("%q %v", v.Reveal(), err)
		}
	}
}
