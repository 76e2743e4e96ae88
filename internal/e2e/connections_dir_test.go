package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
)

// mount is a folder as Kubernetes mounts a ConfigMap or a Secret: every name is a link through ..data, and a change is one
// swap of that link.
type mount struct {
	t    *testing.T
	dir  string
	turn int
}

// set replaces the whole content in one step.
func (m *mount) set(files map[string]string) {
	m.t.Helper()
	must := func(err error) {
		m.t.Helper()
		if err != nil {
			m.t.Fatal(err)
		}
	}
	m.turn++
	now := fmt.Sprintf("..turn_%d", m.turn)
	must(os.MkdirAll(filepath.Join(m.dir, now), 0o700))
	for name, text := range files {
		must(os.WriteFile(filepath.Join(m.dir, now, name), []byte(text), 0o600))
	}
	must(os.Symlink(now, filepath.Join(m.dir, "..data_tmp")))
	must(os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data")))
	entries, err := os.ReadDir(m.dir)
	must(err)
	for _, e := range entries {
		if _, wanted := files[e.Name()]; !wanted && e.Type()&os.ModeSymlink != 0 && e.Name() != "..data" {
			must(os.Remove(filepath.Join(m.dir, e.Name())))
		}
	}
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)); err != nil && !os.IsExist(err) {
			m.t.Fatal(err)
		}
	}
	must(os.RemoveAll(filepath.Join(m.dir, fmt.Sprintf("..turn_%d", m.turn-1))))
}

// Connections come, change and go with the files of a folder while the watcher runs, and so do tokens; the others are not
// disturbed, and a wrong file changes nothing.
func TestConnectionsComeAndGoWithTheirFiles(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.dir, "hosts")
	conns, tokens := &mount{t: t, dir: filepath.Join(dir, "connections.d")}, &mount{t: t, dir: filepath.Join(dir, "tokens")}
	var secrets []string
	for i := range 3 {
		secrets = append(secrets, w.sim.AddToken(fmt.Sprintf("user-%d", i), "origin:https://host.example.test"))
		_, err := w.sim.Put(fmt.Sprintf("user-%d", i), envoysim.Purchase{
			State: envoysim.WaitingForUser, UserTask: envoysim.Approve, Rail: envoysim.OperatedCheckout,
			CheckoutBy: envoysim.ByEnvoy, MerchantName: "Example Store", MerchantURL: "https://shop.example.test", Amount: 249900,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	of := func(host, token string) string {
		return fmt.Sprintf("name: %s\nbase_url: %q\ntoken: \"file:%s/%s\"\n", host, w.envoy.URL, tokens.dir, token)
	}
	tokens.set(map[string]string{"t0": secrets[0], "t1": secrets[1], "t2": secrets[2]})
	conns.set(map[string]string{"a.yaml": of("host-0", "t0")})
	file := w.write(dir, "herald.yaml", fmt.Sprintf(`nats: { url: %q }
redis: { url: %q }
data_dir: %s/data
http: { listen: "127.0.0.1:0" }
log: { level: info, format: json }
watch: { requests_per_minute: 100, look_every: 2s, discover_every: 2s }
connections_dir: %s
`, w.nats.URL(), w.redis.URL(), dir, conns.dir))
	p := w.start("watcher", "-c", file)
	p.says(`"msg":"running"`)
	addr := p.listen()
	holds := func(what string, n int) {
		t.Helper()
		await(t, 60*time.Second, what, func() bool { return w.sim.Holds() == n }, p.out.String)
	}
	holds("the first connection is watched", 1)

	conns.set(map[string]string{"a.yaml": of("host-0", "t0"), "b.yaml": of("host-1", "t1")})
	holds("a second file, a second connection", 2)

	start, asked := time.Now(), w.sim.Requests()[secrets[0]].ByTool["get_purchase_status"]
	conns.set(map[string]string{"a.yaml": of("host-0", "t0"), "b.yaml": of("host-1", "t2")})
	await(t, 60*time.Second, "the changed one watches another user", func() bool {
		return w.sim.Holds() == 2 && w.sim.Requests()[secrets[2]].Total > 0
	}, p.out.String)

	conns.set(map[string]string{"a.yaml": of("host-0", "t0"), "b.yaml": of("host-1", "t2"), "c.yaml": "name: host-2\nbase_ur: x\n"})
	await(t, 60*time.Second, "a wrong file is refused", func() bool { return gauge(addr, "herald_config_reload_success") == "0" }, p.out.String)
	p.says("base_ur")
	holds("and changes nothing", 2)

	if again := w.sim.Requests()[secrets[0]].ByTool["get_purchase_status"] - asked; again > 1+int(time.Since(start)/(40*time.Second)) {
		t.Errorf("the connection that stayed was disturbed: %d holds began", again)
	}
	conns.set(map[string]string{"a.yaml": of("host-0", "t0")})
	holds("a file that goes takes its connection with it", 1)
	await(t, 60*time.Second, "all is right again", func() bool { return gauge(addr, "herald_config_reload_success") == "1" }, p.out.String)

	fresh := w.sim.AddToken("user-0", "origin:https://host.example.test")
	tokens.set(map[string]string{"t0": fresh})
	w.sim.Revoke(secrets[0])
	await(t, 60*time.Second, "the token is rotated under a hold", func() bool {
		return w.sim.Holds() == 1 && w.sim.Requests()[fresh].Total > 0
	}, p.out.String)
	if code := p.stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.out)
	}
}
