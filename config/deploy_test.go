package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// loadWithOnly loads a shipped file for a role where just the named secrets exist, in the folder that the file names.
func loadWithOnly(t *testing.T, file, folder string, role Role, secrets []string) {
	t.Helper()
	dir := t.TempDir()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(dir, "herald.yaml")
	place(t, moved, strings.ReplaceAll(string(data), folder, dir))
	for _, name := range secrets {
		place(t, filepath.Join(dir, name), "stand-in")
	}
	cfg, err := LoadFor(moved, role)
	if err != nil {
		t.Errorf("%s as %s: %v", file, role, err)
		return
	}
	if len(cfg.Warnings()) > 0 {
		t.Errorf("%s: %v", file, cfg.Warnings())
	}
}

// TestComposeGivesEachRoleItsSecrets holds compose.yaml against the configuration that it mounts.
func TestComposeGivesEachRoleItsSecrets(t *testing.T) {
	data, err := os.ReadFile("../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct {
			Image       string   `yaml:"image"`
			Secrets     []string `yaml:"secrets"`
			Healthcheck any      `yaml:"healthcheck"`
		} `yaml:"services"`
		Secrets map[string]struct {
			File string `yaml:"file"`
		} `yaml:"secrets"`
		Configs map[string]struct {
			File string `yaml:"file"`
		} `yaml:"configs"`
	}
	if err := yaml.Unmarshal(data, &compose); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for name, service := range compose.Services {
		if service.Healthcheck == nil {
			t.Errorf("%s has no health check", name)
		}
		if !regexp.MustCompile(`^[a-z]+:[a-z0-9.-]+$`).MatchString(service.Image) || strings.HasSuffix(service.Image, ":latest") {
			t.Errorf("%s has the image %q", name, service.Image)
		}
		for _, s := range service.Secrets {
			used[s] = true
			if compose.Secrets[s].File == "" {
				t.Errorf("%s uses %s, which is not declared", name, s)
			}
		}
	}
	if len(used) != len(compose.Secrets) {
		t.Errorf("%d secrets are declared, %d used", len(compose.Secrets), len(used))
	}
	for name, c := range compose.Configs {
		if _, err := os.Stat(filepath.Join("../deploy", c.File)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, role := range []Role{RoleWatcher, RoleNotifier} {
		loadWithOnly(t, "../deploy/herald.yaml", "/run/secrets", role, compose.Services[string(role)].Secrets)
	}
	for _, secret := range compose.Services["notifier"].Secrets {
		if secret == "envoy-token" {
			t.Error("the notifier holds a token for Envoy")
		}
	}
}

// TestUnitsGiveEachRoleItsSecrets holds the systemd units against their configuration files.
func TestUnitsGiveEachRoleItsSecrets(t *testing.T) {
	credential := regexp.MustCompile(`(?m)^LoadCredential=([^:\n]+):/etc/herald/secrets/([^\n]+)$`)
	stop := regexp.MustCompile(`(?m)^TimeoutStopSec=(.+)$`)
	for unit, role := range map[string]Role{"herald": RoleHerald, "herald-watcher": RoleWatcher, "herald-notifier": RoleNotifier} {
		data, err := os.ReadFile("../deploy/systemd/" + unit + ".service")
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		var names []string
		for _, m := range credential.FindAllStringSubmatch(text, -1) {
			if m[1] != m[2] {
				t.Errorf("%s: %s comes from %s", unit, m[1], m[2])
			}
			names = append(names, m[1])
		}
		loadWithOnly(t, "../deploy/systemd/"+string(role)+".yaml", "/run/credentials/"+unit+".service", role, names)
		for _, want := range []string{"NoNewPrivileges=yes", "ProtectSystem=strict", "DynamicUser=yes", "KillSignal=SIGTERM", "Restart=on-failure", "/" + string(role) + ".yaml\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %s", unit, want)
			}
		}
		m := stop.FindStringSubmatch(text)
		if m == nil {
			t.Errorf("%s has no time to stop", unit)
			continue
		}
		if grace, _, err := parseDuration(m[1]); err != nil || grace <= Defaults().ShutdownGrace {
			t.Errorf("%s is given %s to stop, and needs %s: %v", unit, m[1], Defaults().ShutdownGrace, err)
		}
	}
}
