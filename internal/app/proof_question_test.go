package app

import (
	"encoding/json"
	"testing"

	"github.com/heraldbridge/herald/config"
)

// The maker of proofs is told the method, the address and the digest of the very call.
func TestProofIsAskedForTheCall(t *testing.T) {
	ask := prover(&config.Proof{Command: []string{"/bin/cat"}}) // its answer is the question
	out, err := ask(t.Context(), "POST", "https://api.example.test/tools/list_purchases", [32]byte{0xab, 31: 0xcd})
	if err != nil {
		t.Fatal(err)
	}
	var q map[string]string
	if err := json.Unmarshal([]byte(out), &q); err != nil {
		t.Fatal(err)
	}
	want := "ab000000000000000000000000000000000000000000000000000000000000cd"
	if len(q) != 3 || q["method"] != "POST" || q["url"] != "https://api.example.test/tools/list_purchases" || q["sha256"] != want {
		t.Errorf("asked for %v", q)
	}
}
