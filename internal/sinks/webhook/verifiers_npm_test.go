//go:build npm

package webhook_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Verifiers in another language (the npm package standardwebhooks for v1, Node's
// own ed25519 for v1a) take every delivery and none that was changed. Needs Node.js, npm and
// the registry, so it is built with the tag npm only.
func TestB18_VerifiersInAnotherLanguageAcceptEveryDelivery(t *testing.T) {
	s := deliverMany(t)
	var all []delivery
	for _, r := range s.requests {
		d := delivered(r, s.hmacKey, s.public)
		all = append(append(all, d), d.flips(s.random)...)
	}
	const each = 4 // the delivery and its changed forms
	for i, v := range verdicts(t, all) {
		if want := i%each == 0; v.V1 != want || v.V1a != want {
			t.Fatalf("delivery %d, form %d: v1 %v, v1a %v", i/each, i%each, v.V1, v.V1a)
		}
	}
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
