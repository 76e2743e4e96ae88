package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/heraldbridge/herald/config"
)

// A link that leads nowhere, or a secret that is not there, hides no other mistake.
func TestAllMistakesAreToldAtOnce(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	write("hosts/a.yaml", "name: 'no name!'\n")
	rest := `
sinks: [{ name: orders, webhook: { url: "https://orders.example.test/", secrets: ["file:absent"] } }]
subscriptions: [{ name: orders, match: "sitution", sinks: [orders] }]
`
	tests := map[string]struct {
		text string
		want []string
	}{
		"the folder is a link to nothing": {"connections_dir: link" + rest,
			[]string{"connections_dir: ", "sinks[0].webhook.secrets[0]: ", "subscriptions[0].match: undeclared"}},
		"a secret is not there": {"connections_dir: hosts" + rest,
			[]string{"sinks[0].webhook.secrets[0]: ", "subscriptions[0].match: undeclared", "a.yaml:1:7: name: "}},
		"the text itself is wrong": {"connection_dir: hosts" + rest, []string{`unknown key "connection_dir"`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := load(write("herald.yaml", tt.text), config.RoleHerald)
			var mistakes config.Errors
			if !errors.As(err, &mistakes) {
				t.Fatalf("got %v", err)
			}
			for _, want := range tt.want {
				if strings.Count(err.Error(), want) != 1 {
					t.Errorf("%d times %q in:\n%v", strings.Count(err.Error(), want), want, err)
				}
			}
		})
	}
}
