package docstest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestMonitoringComposeIsWhole holds compose.monitoring.yaml against what it mounts and what compose.yaml gives it.
func TestMonitoringComposeIsWhole(t *testing.T) {
	type file struct {
		File string `yaml:"file"`
	}
	type compose struct {
		Services map[string]struct {
			Image       string           `yaml:"image"`
			Secrets     []string         `yaml:"secrets"`
			Networks    []string         `yaml:"networks"`
			Ports       []string         `yaml:"ports"`
			Healthcheck any              `yaml:"healthcheck"`
			ReadOnly    bool             `yaml:"read_only"`
			Configs     []map[string]any `yaml:"configs"`
		} `yaml:"services"`
		Configs  map[string]file `yaml:"configs"`
		Secrets  map[string]file `yaml:"secrets"`
		Networks map[string]any  `yaml:"networks"`
	}
	var base, more compose
	for name, into := range map[string]*compose{"compose.yaml": &base, "compose.monitoring.yaml": &more} {
		if err := yaml.Unmarshal([]byte(read(t, "deploy", name)), into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for name, s := range more.Services {
		if !regexp.MustCompile(`^[a-z]+/[a-z]+:v?[0-9]+\.[0-9]+\.[0-9]+$`).MatchString(s.Image) || s.Healthcheck == nil || !s.ReadOnly {
			t.Errorf("%s: image %s, health check %v, read-only %t", name, s.Image, s.Healthcheck, s.ReadOnly)
		}
		for _, secret := range s.Secrets {
			if more.Secrets[secret].File == "" && base.Secrets[secret].File == "" {
				t.Errorf("%s uses the secret %s, which nobody declares", name, secret)
			}
		}
		for _, n := range s.Networks {
			if _, ok := base.Networks[n]; !ok {
				t.Errorf("%s uses the network %s, which nobody declares", name, n)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s is open to the world at %s", name, p)
			}
		}
		for _, c := range s.Configs {
			source, _ := c["source"].(string)
			if _, err := os.Stat(filepath.Join("../../deploy", more.Configs[source].File)); err != nil || more.Configs[source].File == "" {
				t.Errorf("%s mounts %s: %v", name, source, err)
			}
		}
	}
	scrape := read(t, "deploy", "prometheus", "prometheus.yaml")
	for _, role := range []string{"watcher", "notifier"} {
		if _, ok := base.Services[role]; !ok || !strings.Contains(scrape, "names: ["+role+"]") || !strings.Contains(scrape, "job_name: herald-"+role) {
			t.Errorf("Prometheus does not find the %s", role)
		}
	}
}

// clusterOptions reads nats.conf as the server of one name does, and moves it to this machine's loopback.
func clusterOptions(t *testing.T, name, dir string) *server.Options {
	t.Helper()
	t.Setenv("NATS_NAME", name)
	o, err := server.ProcessConfigFile("../../deploy/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	if o.ServerName != name || len(o.Routes) != 3 || !o.JetStream || o.JetStreamMaxStore == 0 {
		t.Fatalf("%s: name %s, %d routes, JetStream %t with %d bytes", name, o.ServerName, len(o.Routes), o.JetStream, o.JetStreamMaxStore)
	}
	o.Host, o.Port, o.HTTPHost, o.HTTPPort = "127.0.0.1", server.RANDOM_PORT, "", 0
	o.Cluster.Host, o.StoreDir, o.NoLog, o.NoSigs = "127.0.0.1", filepath.Join(dir, name), true, true
	o.JetStreamMaxStore = 256 << 20
	return o
}

// freePorts asks the system for ports that nobody uses.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// eventually waits for a condition; what is waited for has no signal of its own.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit, tick := time.After(time.Minute), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-limit:
			t.Fatalf("waited a minute: %s", what)
		case <-tick.C:
		}
	}
}

// TestNATSClusterOutlivesOneServer starts the three servers of nats.conf, keeps a message three times, ends one server
// and keeps another.
func TestNATSClusterOutlivesOneServer(t *testing.T) {
	dir, ports := t.TempDir(), freePorts(t, 3)
	var servers []*server.Server
	var urls []string
	for i := range 3 {
		o := clusterOptions(t, fmt.Sprintf("nats-%d", i+1), dir)
		for j, r := range o.Routes {
			if r.Host != fmt.Sprintf("nats-%d:6222", j+1) {
				t.Errorf("route %d leads to %s", j, r.Host)
			}
		}
		o.Routes = nil
		for _, p := range ports {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", p)})
		}
		o.Cluster.Port = ports[i]
		s, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers = append(servers, s)
	}
	for _, s := range servers {
		if !s.ReadyForConnections(30 * time.Second) {
			t.Fatal("a server does not start")
		}
		urls = append(urls, s.ClientURL())
	}
	nc, err := nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a stream with three copies", func() bool {
		_, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "T", Subjects: []string{"t.>"}, Replicas: 3})
		return err == nil
	})
	publish := func(subject string) func() bool {
		return func() bool { _, err := js.Publish(t.Context(), subject, nil); return err == nil }
	}
	eventually(t, "a message is kept", publish("t.one"))
	servers[0].Shutdown()
	eventually(t, "a message is kept by the two that are left", publish("t.two"))
}
