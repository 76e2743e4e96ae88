package e2e_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/heraldbridge/herald/internal/envoysim"
)

// A connection whose token comes after it is watched as soon as the token is there: the two may be mounted apart.
func TestTokenComesAfterItsConnection(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.dir, "hosts")
	conns, tokens := &mount{t: t, dir: filepath.Join(dir, "connections.d")}, &mount{t: t, dir: filepath.Join(dir, "tokens")}
	var secrets []string
	for i := range 2 {
		user := fmt.Sprintf("user-%d", i)
		secrets = append(secrets, w.sim.AddToken(user, "origin:https://host.example.test"))
		_, err := w.sim.Put(user, envoysim.Purchase{
			State: envoysim.WaitingForUser, UserTask: envoysim.Approve, Rail: envoysim.OperatedCheckout,
			CheckoutBy: envoysim.ByEnvoy, MerchantName: "Example Store", MerchantURL: "https://shop.example.test", Amount: 249900,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	of := func(i int) string {
		return fmt.Sprintf("name: host-%d\nbase_url: %q\ntoken: \"file:%s/t%d\"\n", i, w.envoy.URL, tokens.dir, i)
	}
	tokens.set(map[string]string{"t0": secrets[0]})
	conns.set(map[string]string{"a.yaml": of(0)})
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
	await(t, 60*time.Second, "the first connection is watched", func() bool { return w.sim.Holds() == 1 }, p.out.String)
	conns.set(map[string]string{"a.yaml": of(0), "b.yaml": of(1)})
	await(t, 60*time.Second, "without its token the second is refused", func() bool {
		return gauge(addr, "herald_config_reload_success") == "0"
	}, p.out.String)
	tokens.set(map[string]string{"t0": secrets[0], "t1": secrets[1]})
	await(t, 60*time.Second, "with it, it is watched", func() bool {
		return w.sim.Holds() == 2 && gauge(addr, "herald_config_reload_success") == "1"
	}, p.out.String)
	if code := p.stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.out)
	}
}
