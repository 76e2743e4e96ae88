package docstest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
)

// reader is somebody who does what the pages say, in a folder of their own with the programs built in bin/.
type reader struct {
	t    *testing.T
	dir  string
	addr string   // where herald listens, in place of its usual address
	swap []string // what they have in place of what the pages name, in pairs
}

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{t: t, dir: t.TempDir(), addr: fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(r.dir, "bin")+"/", "./cmd/...")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	r.swap = []string{
		"make build", ":", "make demo", ":", // done, and tried by a test of its own
		"/usr/local/bin", r.dir + "/programs", "/etc/herald", r.dir + "/etc", "/var/lib/herald", r.dir + "/var",
		"http://127.0.0.1:9464", "http://" + r.addr, "connections:", "http: { listen: \"" + r.addr + "\" }\nconnections:",
		"herald sinks", "herald sinks --url http://" + r.addr, "herald purchases", "herald purchases --url http://" + r.addr,
		"herald events tail", "herald events tail --url http://" + r.addr, "herald silence add", "herald silence add --url http://" + r.addr,
		"herald simulate", "herald simulate --url http://" + r.addr, "systemctl reload", ": systemctl reload",
		"herald run", "exec herald run", "bin/herald run", "exec bin/herald run",
	}
	if err := os.MkdirAll(r.dir+"/programs", 0o755); err != nil {
		t.Fatal(err)
	}
	return r
}

// shell gives a script as it is run here.
func (r *reader) shell(ctx context.Context, script string) *exec.Cmd {
	script = strings.NewReplacer(r.swap...).Replace(script)
	cmd := exec.CommandContext(ctx, "sh", "-euc", script)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "PATH="+r.dir+"/programs:"+os.Getenv("PATH"), "HERALD_TOKEN=synthetic-token", "TOKEN=synthetic-token")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	return cmd
}

// does runs a script to its end and gives what it said.
func (r *reader) does(script string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	out, err := r.shell(ctx, script).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

// keeps runs a script that goes on until the test ends, and gives what it has said so far.
func (r *reader) keeps(script string) func() string {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	cmd, out := r.shell(ctx, script), &said{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was asked to end
		if r.t.Failed() {
			r.t.Logf("%s\n%s", script, out.text())
		}
	})
	return out.text
}

// ready waits for the process to be.
func (r *reader) ready() {
	r.t.Helper()
	eventually(r.t, "the process is ready", func() bool {
		q, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.addr+"/readyz", nil)
		if err != nil {
			r.t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// of gives the blocks of a page in a language, in order.
func of(t *testing.T, page, lang string) []string {
	t.Helper()
	var out []string
	for _, b := range blocks(t) {
		if b.page == page && b.lang == lang {
			out = append(out, b.text)
		}
	}
	return out
}

// TestReadmeAsWritten does what the README says to somebody who has nothing to connect to.
func TestReadmeAsWritten(t *testing.T) {
	r := newReader(t)
	simulator := fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
	r.swap = append(r.swap, "127.0.0.1:8088", simulator, "bin/envoysim", "exec bin/envoysim --listen "+simulator)
	page := read(t, "README.md")
	between := func(from, to string) string {
		_, rest, found := strings.Cut(page, from)
		text, _, ended := strings.Cut(rest, to)
		if !found || !ended {
			t.Fatalf("the README has nothing between %q and %q", from, to)
		}
		return text
	}
	r.keeps(between("In one terminal `", "`"))
	script := strings.ReplaceAll(between("in another:\n\n", "\nand in a third"), "\n    ", "\n")
	r.keeps(strings.TrimPrefix(script, "    "))
	r.ready()
	tail := r.keeps("exec " + between("and in a third `", "`"))
	eventually(t, "the third terminal shows a purchase", func() bool { return strings.Contains(tail(), "pur_") })
}

// TestQuickstartAsWritten follows the quickstart beside an agent host, step by step, and then the pages that it leads to.
func TestQuickstartAsWritten(t *testing.T) {
	r := newReader(t)
	sim, err := envoysim.New(envoysim.Options{Seed: 8})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- sim.Serve(ctx, l) }()
	t.Cleanup(func() { stop(); <-ended })
	token := sim.AddToken("asha", "origin:https://host.example.test")
	purchase, err := sim.Start(token, envoysim.Spec{Rail: envoysim.OperatedCheckout, State: envoysim.Verifying})
	if err != nil {
		t.Fatal(err)
	}
	const slackToken = "xoxb-synthetic-quickstart"
	slack, err := sinkfakes.NewSlack("127.0.0.1:0", nil, sinkfakes.SlackOptions{Token: slackToken, Channels: []string{"C0000000001"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slack.Close() })
	// Slack's own address cannot be had; a bot can be told of another.
	r.swap = append(r.swap, "https://api.envoy.money", "http://"+l.Addr().String(),
		`webhook_url: "file:/etc/herald/secrets/slack-webhook-url"`,
		fmt.Sprintf(`bot_token: "file:%s/etc/secrets/slack-webhook-url", channel: C0000000001, api_url: %q`, r.dir, slack.APIURL()))

	steps, files := of(t, "docs/quickstart.md", "sh"), of(t, "docs/quickstart.md", "yaml")
	if len(steps) != 5 || len(files) != 2 {
		t.Fatalf("the quickstart has %d scripts and %d files: this test knows 5 and 2", len(steps), len(files))
	}
	r.has("envoy-token", token)
	r.has("slack-webhook-url", slackToken)
	r.does(steps[0])
	r.does(steps[1])
	r.does(steps[2])
	r.has("etc/herald.yaml", files[0])
	r.has("herald.yaml", files[0])
	r.has("new.yaml", files[0])
	check, run, found := strings.Cut(steps[3], "\n")
	if !found {
		t.Fatalf("no two commands in %q", steps[3])
	}
	if out := r.does(check); !strings.Contains(out, "all in order") {
		t.Errorf("the check says %q", out)
	}
	r.keeps(run)
	r.ready()
	eventually(t, "the purchase is seen", func() bool { return strings.Contains(r.does(steps[4]), purchase) })
	if out := r.does(steps[4]); !strings.Contains(out, "ready") || !strings.Contains(out, "done") || len(slack.Posts()) == 0 {
		t.Errorf("Slack got %d posts; the last step says\n%s", len(slack.Posts()), out)
	}
	for page, want := range map[string]string{
		"docs/beside-an-agent-host.md": `"connection":"host-a"`, "docs/faq.md": "sil-", "docs/configuration.md": "", "docs/upgrades.md": "all in order",
	} {
		scripts := of(t, page, "sh")
		if len(scripts) == 0 {
			t.Errorf("%s has no script", page)
		}
		out := r.does(strings.Join(scripts, "\n"))
		if !strings.Contains(out, want) || strings.Contains(out, `"error"`) {
			t.Errorf("%s says\n%s", page, out)
		}
	}
}

// has puts a file where the reader has it.
func (r *reader) has(name, text string) {
	r.t.Helper()
	text = strings.NewReplacer(r.swap...).Replace(text)
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}
