package app

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/envoy"
	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/heraldbridge/herald/internal/secret"
)

func TestATokenHasChangedOnlyAgainstTheOneInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first-token-0001")
	c := &credential{src: secret.File(path)}
	use := func() {
		t.Helper()
		if _, err := c.Token(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	use()
	if c.Changed(t.Context()) {
		t.Error("an unchanged token counts as changed after its first use")
	}
	write("second-token-002")
	for range 2 { // asking is not using
		if !c.Changed(t.Context()) {
			t.Error("a rotated token does not count as changed until it is used")
		}
	}
	use()
	if c.Changed(t.Context()) {
		t.Error("the rotated token counts as changed after its use")
	}
	write("two\nlines")
	if _, err := c.Token(t.Context()); err == nil || strings.Contains(err.Error(), "lines\n") {
		t.Errorf("a token of two lines gives %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if c.Changed(t.Context()) {
		t.Error("a token that cannot be read counts as changed")
	}
}

// bound serves a simulated Envoy whose token works only with a proof, and gives a
// look through a connection with the given prover.
func bound(t *testing.T, p *config.Proof) error {
	t.Helper()
	sim, err := envoysim.New(envoysim.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	token := sim.AddToken("asha", "origin:https://host.example.test")
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(server.Close)
	sim.BindKey(token, func(method, url string, body []byte, proof string) bool {
		sum := sha256.Sum256(body)
		return proof == "proof."+method+"."+hex.EncodeToString(sum[:])
	})
	client := envoy.NewHTTPClient(envoy.HTTPOptions{})
	t.Cleanup(client.CloseIdleConnections)
	c := buildConnection(t.Context(), config.Connection{
		Name: "host-a", BaseURL: server.URL, Token: secret.Literal(token), Proof: p,
	}, client, "test")
	for range 2 { // afresh for each attempt
		if _, err := c.Reader.Look(t.Context(), false); err != nil {
			return err
		}
	}
	return nil
}

func TestProofFromACommand(t *testing.T) {
	script := filepath.Join(t.TempDir(), "prove")
	text := `#!/bin/sh
read -r line
method=$(printf %s "$line" | sed 's/.*"method":"\([A-Z]*\)".*/\1/')
sum=$(printf %s "$line" | sed 's/.*"sha256":"\([0-9a-f]*\)".*/\1/')
echo "proof.$method.$sum"
`
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := bound(t, &config.Proof{Command: []string{script}}); err != nil {
		t.Errorf("with the proof: %v", err)
	}
	if err := bound(t, nil); err == nil {
		t.Error("a key-bound token works without a proof")
	}
	err := bound(t, &config.Proof{Command: []string{"/bin/sh", "-c", "echo canary-proof >&2; exit 1"}})
	if err == nil || strings.Contains(err.Error(), "canary-proof") {
		t.Errorf("a failing command gives %v", err)
	}
}

func TestProofFromASocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prove.sock")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(c).ReadBytes('\n')
			var q question
			if json.Unmarshal(line, &q) == nil {
				fmt.Fprintf(c, "proof.%s.%s\n", q.Method, q.SHA256)
			}
			c.Close()
		}
	})
	if err := bound(t, &config.Proof{Socket: config.Path(path)}); err != nil {
		t.Error(err)
	}
	l.Close()
	wg.Wait()
	if err := bound(t, &config.Proof{Socket: config.Path(path)}); err == nil {
		t.Error("a socket that nobody listens on gives a proof")
	}
}

func TestProofIsBounded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := prover(&config.Proof{Command: []string{"/bin/sh", "-c", "exec sleep 30"}})(ctx, "POST", "http://127.0.0.1/", [32]byte{})
	if err == nil || time.Since(began) > 4*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	// One that never stops talking is ended by its first words too many, not by the time that it may take.
	_, err = prover(&config.Proof{Command: []string{"/bin/sh", "-c", "exec yes"}})(t.Context(), "POST", "http://127.0.0.1/", [32]byte{})
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command without end: %v", err)
	}
	for name, out := range map[string]string{"empty": "", "two headers": "a\rb\nX: y", "long": strings.Repeat("a", proofMost+1)} {
		if v, err := header([]byte(out)); err == nil {
			t.Errorf("%s passed as %q", name, v)
		}
	}
}
