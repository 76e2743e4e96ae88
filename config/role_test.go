package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRoles(t *testing.T) {
	for role, want := range map[Role]bool{RoleHerald: false, RoleWatcher: true, RoleNotifier: true} {
		if NeedsRedis(role) != want {
			t.Errorf("%s needs redis: want %t", role, want)
		}
	}
	empty := mustParse(t, "")
	for role, want := range map[Role][]string{
		RoleHerald:   {"connections"},
		RoleWatcher:  {"connections", "nats.url", "redis.url"},
		RoleNotifier: {"nats.url", "redis.url"},
	} {
		err := empty.ForRole(role)
		var mistakes Errors
		if !errors.As(err, &mistakes) || len(mistakes) != len(want) {
			t.Errorf("%s: %v", role, err)
		}
		for _, path := range want {
			if !strings.Contains(err.Error(), path+": is ") {
				t.Errorf("%s: no %s in %v", role, path, err)
			}
		}
	}
	if err := mustParse(t, "connections_dir: /x\n").ForRole(RoleHerald); err != nil {
		t.Errorf("a folder of connections: %v", err)
	}
}

func TestRolesReadOnlyTheirSecrets(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "herald.yaml")
	place(t, file, `nats: { url: nats://127.0.0.1 }
redis: { url: redis://127.0.0.1, password: file:redis }
connections: [{ name: a, base_url: https://api.envoy.money, token: file:envoy }]
sinks: [{ name: hook, webhook: { url: https://hooks.example.com/, secrets: [file:hook], tls: { ca: ca.pem } } }]
`)
	place(t, filepath.Join(dir, "redis"), "x")
	place(t, filepath.Join(dir, "envoy"), "x")
	if _, err := LoadFor(file, RoleWatcher); err != nil {
		t.Errorf("watcher: %v", err)
	}
	if _, err := LoadFor(file, RoleNotifier); err == nil || strings.Count(err.Error(), "does not exist") != 2 {
		t.Errorf("notifier: %v", err)
	}
	place(t, filepath.Join(dir, "hook"), "x")
	place(t, filepath.Join(dir, "ca.pem"), "x")
	if err := os.Remove(filepath.Join(dir, "envoy")); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadFor(file, RoleNotifier); err != nil {
		t.Errorf("notifier: %v", err)
	}
	for _, role := range []Role{RoleWatcher, RoleHerald} {
		if _, err := LoadFor(file, role); err == nil || !strings.Contains(err.Error(), "connections[0].token") {
			t.Errorf("%s: %v", role, err)
		}
	}
	if _, err := Load(file); err == nil {
		t.Error("everything, without the token")
	}
}
