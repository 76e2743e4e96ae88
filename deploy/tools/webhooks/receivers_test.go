package webhooks

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks/webhook"
)

// example gives the code of a language in the page.
func example(t *testing.T, lang string) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/sinks/webhook.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?ms)^```" + lang + "\n(.*?)^```$").FindSubmatch(page)
	if m == nil {
		t.Fatalf("the page has no example in %s", lang)
	}
	return string(m[1])
}

// signed makes a delivery as the sink does, with the new and the old secret.
func signed(t *testing.T, keys ...string) ([]byte, http.Header) {
	t.Helper()
	e := events.Samples()[0]
	body, err := events.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	var secrets []secret.Value
	for _, k := range keys {
		secrets = append(secrets, secret.New(k))
	}
	now := time.Now()
	signature, err := webhook.Sign(secrets, e.ID, now, body)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	h.Set("Webhook-Id", e.ID)
	h.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	h.Set("Webhook-Signature", signature)
	return body, h
}

func key(fill byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32))
}

func TestGoLibraryVerifies(t *testing.T) {
	body, h := signed(t, key(1), key(2))
	for _, k := range []string{key(1), key(2)} {
		wh, err := standardwebhooks.NewWebhook(k)
		if err != nil {
			t.Fatal(err)
		}
		if err := wh.Verify(body, h); err != nil {
			t.Error(err)
		}
		if wh.Verify(append([]byte(" "), body...), h) == nil {
			t.Error("a changed body is verified")
		}
	}
	other, err := standardwebhooks.NewWebhook(key(3))
	if err != nil {
		t.Fatal(err)
	}
	if other.Verify(body, h) == nil {
		t.Error("another secret verifies")
	}
}

// run starts a receiver, waits until it listens, and ends it with the test.
func run(t *testing.T, port int, cmd *exec.Cmd) {
	t.Helper()
	cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+key(1), fmt.Sprintf("PORT=%d", port))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	limit, tick := time.After(time.Minute), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-limit:
			t.Fatalf("the receiver does not listen: %s", out.String())
		case <-tick.C:
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// try sends a good delivery and a changed one.
func try(t *testing.T, port int) {
	t.Helper()
	body, h := signed(t, key(1), key(2))
	for want, sent := range map[int][]byte{http.StatusNoContent: body, http.StatusBadRequest: bytes.Replace(body, []byte(`"`), []byte(` "`), 1)} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/hooks/envoy", port), bytes.NewReader(sent))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = h.Clone()
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("answered %d, want %d", resp.StatusCode, want)
		}
	}
}

func TestGoReceiver(t *testing.T) {
	dir, port := t.TempDir(), freePort(t)
	code := strings.Replace(example(t, "go"), `":8080"`, fmt.Sprintf(`"127.0.0.1:%d"`, port), 1)
	file, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "receiver")
	if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, file).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	run(t, port, exec.CommandContext(t.Context(), program))
	try(t, port)
}

func TestNodeReceiver(t *testing.T) {
	dir, port := t.TempDir(), freePort(t)
	if err := os.WriteFile(filepath.Join(dir, "receiver.mjs"), []byte(example(t, "js")), 0o600); err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "standardwebhooks@1.0.0")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("install the library (needs node and npm): %v\n%s", err, out)
	}
	node := exec.CommandContext(t.Context(), "node", "receiver.mjs")
	node.Dir = dir
	run(t, port, node)
	try(t, port)
}
