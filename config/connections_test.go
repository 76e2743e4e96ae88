package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const hostB = "name: host-b\nbase_url: https://api.envoy.money\ntoken: env:HERALD_TEST_TOKEN\n"

func TestLoadConnections(t *testing.T) {
	t.Setenv("HERALD_TEST_TOKEN", "x")
	dir := t.TempDir()
	place(t, filepath.Join(dir, "a.yaml"), "name: host-a\nbase_url: https://api.envoy.money\ntoken: file:tokens/a\nproof: { socket: proof.sock }\n")
	place(t, filepath.Join(dir, "tokens", "a"), "x")
	place(t, filepath.Join(dir, "b"), hostB)
	place(t, filepath.Join(dir, ".hidden"), "not: a connection")
	place(t, filepath.Join(dir, "c-wrong.yaml"), "name: host-c\nbase_ur: https://api.envoy.money\ntoken: env:HERALD_TEST_UNSET_VARIABLE\n")
	place(t, filepath.Join(dir, "d-same.yaml"), "---\n"+hostB)
	place(t, filepath.Join(dir, "e-empty.yaml"), "# nothing\n")
	place(t, filepath.Join(dir, "f-list.yaml"), "- "+strings.ReplaceAll(hostB, "\n", "\n  "))

	all, err := LoadConnections(dir)
	if len(all) != 2 || all[0].Name != "host-a" || all[1].Name != "host-b" {
		t.Fatalf("connections %v", all)
	}
	if all[0].Token.Path() != filepath.Join(dir, "tokens", "a") || string(all[0].Proof.Socket) != filepath.Join(dir, "proof.sock") {
		t.Errorf("paths %s, %s", all[0].Token, all[0].Proof.Socket)
	}
	if all[1].Place.File != filepath.Join(dir, "b") || all[1].Place.Line != 1 {
		t.Errorf("place %v", all[1].Place)
	}
	got := strings.ReplaceAll(err.Error()+"\n", dir+"/", "")
	want := `c-wrong.yaml:2:1: unknown key "base_ur"; did you mean "base_url"?
c-wrong.yaml:3:8: token: environment variable HERALD_TEST_UNSET_VARIABLE is not set
d-same.yaml:2:1: name: the name "host-b" is used twice; the first is in b
e-empty.yaml: is empty
f-list.yaml:1:3: wants a section with keys, not a list
`
	// The place of a list as a whole is its first item or the dash before it.
	if alt := strings.Replace(want, "f-list.yaml:1:3", "f-list.yaml:1:1", 1); got != want && got != alt {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if _, err := LoadConnections(filepath.Join(dir, "none")); err == nil {
		t.Error("a missing folder was read")
	}
}

func TestAllConnections(t *testing.T) {
	t.Setenv("HERALD_TEST_TOKEN", "x")
	dir := t.TempDir()
	place(t, filepath.Join(dir, "b"), hostB)
	place(t, filepath.Join(dir, "c"), strings.Replace(hostB, "host-b", "host-c", 1))
	text := "connections: [{ name: host-b, base_url: https://api.envoy.money, token: env:HERALD_TEST_TOKEN }]\n"

	all, err := mustParse(t, text).AllConnections()
	if err != nil || len(all) != 1 {
		t.Errorf("without a folder: %v %v", all, err)
	}
	all, err = mustParse(t, text+"connections_dir: "+dir+"\n").AllConnections()
	var mistakes Errors
	if !errors.As(err, &mistakes) || len(mistakes) != 1 || !strings.HasSuffix(err.Error(), `name: the name "host-b" is used twice; the first is in herald.yaml:1:23`) {
		t.Errorf("error %v", err)
	}
	if len(all) != 2 || all[1].Name != "host-c" {
		t.Errorf("connections %v", all)
	}
}

// TestDirDigestFollowsContent exchanges a folder as Kubernetes does: through links, with the same names and times.
func TestDirDigestFollowsContent(t *testing.T) {
	dir := t.TempDir()
	place(t, filepath.Join(dir, "..1", "a"), "one")
	place(t, filepath.Join(dir, "..2", "a"), "two")
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name+".new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	digest := func() string {
		t.Helper()
		d, err := DirDigest(dir)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	link("..1", "..data")
	link("..data/a", "a")
	first := digest()
	if digest() != first {
		t.Error("changes by itself")
	}
	link("..2", "..data")
	second := digest()
	if second == first {
		t.Error("the exchange was not seen")
	}
	place(t, filepath.Join(dir, ".b"), "hidden")
	if digest() != second {
		t.Error("a hidden file counts")
	}
	place(t, filepath.Join(dir, "b"), "three")
	if digest() == second {
		t.Error("a new file was not seen")
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "c")); err != nil {
		t.Fatal(err)
	}
	digest() // a link to nothing is being exchanged
}
