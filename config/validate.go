package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Validate reports as [Errors] all that is wrong with the values themselves, without looking at anything outside.
// [Load] and [Parse] call it; it is there for configurations made by a program.
func (c *Config) Validate() error {
	k := c.checker()
	k.all()
	return k.errs.orNil()
}

// all runs every check. None depends on another.
func (k *checker) all() {
	c := k.cfg
	k.nats(c.NATS)
	k.redis(c.Redis)
	k.process()
	k.http(c.HTTP)
	for i, conn := range c.Connections {
		k.connection(conn, fmt.Sprintf("connections[%d]", i))
	}
	k.unique("connections", names(c.Connections, func(s Connection) string { return s.Name }))
	k.watch(c.Watch)
	for i := range c.Sinks {
		k.sink(&c.Sinks[i], fmt.Sprintf("sinks[%d]", i))
	}
	k.unique("sinks", names(c.Sinks, func(s Sink) string { return s.Name }))
	for i, sub := range c.Subscriptions {
		k.subscription(sub, fmt.Sprintf("subscriptions[%d]", i))
	}
	k.unique("subscriptions", names(c.Subscriptions, func(s Subscription) string { return s.Name }))
}

func (k *checker) nats(n NATS) {
	if n.URL != "" {
		for server := range strings.SplitSeq(n.URL, ",") {
			k.address("nats.url", strings.TrimSpace(server), "nats", "tls", "ws", "wss")
		}
	}
	if n.URL == "" && n.Replicas > 1 {
		k.add("nats.replicas", "an embedded server holds one copy", "write 1, or name a cluster in nats.url")
	}
	if !slices.Contains([]int{1, 3, 5}, n.Replicas) {
		k.add("nats.replicas", "is not 1, 3 or 5", "")
	}
	if n.MaxBytes < 1<<20 {
		k.add("nats.max_bytes", "is less than 1MiB", "")
	}
	if n.Retention < Duration(time.Minute) {
		k.add("nats.retention", "is less than 1m", "")
	}
	k.tls(n.TLS, "nats.tls")
	k.enum("nats.sync", n.Sync)
}

func (k *checker) redis(r Redis) {
	if r.URL != "" {
		k.address("redis.url", r.URL, "redis", "rediss")
	}
	if r.Username != "" && r.Password.IsZero() {
		k.add("redis.username", "has no password", "add redis.password")
	}
	k.tls(r.TLS, "redis.tls")
	if r.TLS != (TLS{}) && strings.HasPrefix(r.URL, "redis://") {
		k.add("redis.tls", "is not used by redis://", "write rediss:// in redis.url")
	}
}

// process checks what concerns the process as a whole.
func (k *checker) process() {
	c := k.cfg
	if c.Version != Version {
		k.add("version", fmt.Sprintf("is %d; this Herald reads version %d", c.Version, Version), "upgrade Herald, or write the file for this one")
	}
	if c.DataDir == "" {
		k.add("data_dir", "is empty", "")
	}
	if _, err := time.LoadLocation(c.Timezone); err != nil || c.Timezone == "" {
		k.add("timezone", fmt.Sprintf("%s is not a known time zone", quote(c.Timezone)), "write a name such as UTC or Europe/Vienna")
	}
	if c.ShutdownGrace <= 0 {
		k.add("shutdown_grace", "is zero", "")
	}
	k.enum("log.level", c.Log.Level)
	k.enum("log.format", c.Log.Format)
	if c.Tracing.OTLPEndpoint != "" {
		k.address("tracing.otlp_endpoint", c.Tracing.OTLPEndpoint, "http", "https")
	}
}

func (k *checker) http(h HTTP) {
	host, port, err := net.SplitHostPort(h.Listen)
	if err != nil || !isPort(port) {
		k.add("http.listen", "is not an address and a port", "write 127.0.0.1:9464, or [::1]:9464")
		return
	}
	if !isLoopback(host) && h.Token.IsZero() {
		k.add("http.token", "is missing", "http.listen is not a loopback address, so others could reach it")
	}
}

var connectionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (k *checker) connection(c Connection, path string) {
	k.name(path+".name", c.Name, connectionName, "up to 64 letters, digits, - and _")
	k.needed(path+".base_url", c.BaseURL == "")
	if c.BaseURL != "" {
		k.address(path+".base_url", c.BaseURL, "https", "http")
		k.overLoopback(path+".base_url", c.BaseURL)
	}
	k.needed(path+".token", c.Token.IsZero())
	if p := c.Proof; p != nil {
		k.oneOf(path+".proof", given{"command", len(p.Command) > 0}, given{"socket", p.Socket != ""})
		if len(p.Command) > 0 && p.Command[0] == "" {
			k.add(path+".proof.command", "names no program", "")
		}
	}
}

func (k *checker) watch(w Watch) {
	if w.RequestsPerMinute < 1 || w.RequestsPerMinute > 120 {
		k.add("watch.requests_per_minute", "is not between 1 and 120", "Envoy allows a token 120 a minute, and the agent needs some of them")
	}
	if w.LookEvery < Duration(time.Second) {
		k.add("watch.look_every", "is less than 1s", "")
	}
	if w.DiscoverEvery < Duration(time.Second) {
		k.add("watch.discover_every", "is less than 1s", "")
	}
	if w.GiveUp <= 0 {
		k.add("watch.give_up", "is zero", "")
	}
}

func (k *checker) subscription(s Subscription, path string) {
	k.name(path+".name", s.Name, connectionName, "up to 64 letters, digits, - and _")
	k.needed(path+".match", strings.TrimSpace(s.Match.Text) == "")
	k.needed(path+".sinks", len(s.Sinks) == 0)
	known := names(k.cfg.Sinks, func(s Sink) string { return s.Name })
	for i, name := range s.Sinks {
		at := fmt.Sprintf("%s.sinks[%d]", path, i)
		if slices.Index(s.Sinks, name) < i {
			k.add(at, fmt.Sprintf("sink %s is named twice", quote(name)), "")
		}
		if slices.Contains(known, name) || k.cfg.unread("sinks") {
			continue
		}
		hint := "add it under sinks"
		if near := nearest(name, known); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		k.add(at, fmt.Sprintf("there is no sink %s", quote(name)), hint)
	}
}

func names[T any](list []T, name func(T) string) []string {
	all := make([]string, 0, len(list))
	for _, item := range list {
		all = append(all, name(item))
	}
	return all
}

// unique reports names that an earlier item of the list has too.
func (k *checker) unique(list string, all []string) {
	first := map[string]int{}
	for i, name := range all {
		if name == "" {
			continue
		}
		if j, again := first[name]; again {
			at := k.cfg.At(fmt.Sprintf("%s[%d].name", list, j))
			hint := ""
			if at.Line > 0 {
				hint = fmt.Sprintf("the first is in line %d", at.Line)
			}
			k.add(fmt.Sprintf("%s[%d].name", list, i), fmt.Sprintf("the name %s is used twice", quote(name)), hint)
			continue
		}
		first[name] = i
	}
}

func (k *checker) name(path, name string, form *regexp.Regexp, rule string) {
	if name == "" {
		k.needed(path, true)
		return
	}
	if !form.MatchString(name) {
		k.add(path, fmt.Sprintf("%s is not a name", quote(name)), "a name is "+rule)
	}
}

// needed reports a value that may not be left out.
func (k *checker) needed(path string, absent bool) {
	if absent {
		k.add(path, "is missing", "")
	}
}

// given is one of several keys that exclude each other.
type given struct {
	key string
	set bool
}

// oneOf reports when not exactly one of the keys of a section is set.
func (k *checker) oneOf(path string, keys ...given) {
	var all, set []string
	for _, g := range keys {
		all = append(all, g.key)
		if k.cfg.failed[join(path, g.key)] {
			return
		}
		if g.set {
			set = append(set, g.key)
		}
	}
	list := strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
	switch len(set) {
	case 0:
		k.add(path, "has none of "+list, "it needs exactly one of them")
	case 1:
	default:
		k.add(join(path, set[1]), fmt.Sprintf("stands beside %s", set[0]), "exactly one of "+list+" may be there")
	}
}

// enum reports a word that a program has set and the enumeration does not have.
func (k *checker) enum(path string, word words) {
	if text := fmt.Sprint(word); !slices.Contains(word.words(), text) {
		k.add(path, fmt.Sprintf("%s is not known here", quote(text)), "one of "+strings.Join(word.words(), ", "))
	}
}

// address checks a URL with a host. It never shows the text, which may hold a secret.
func (k *checker) address(path, text string, schemes ...string) {
	forms := strings.Join(schemes, "://, ") + "://"
	u, err := url.Parse(text)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Opaque != "" {
		k.add(path, "is not an address of the forms "+forms, "an IPv6 address stands in brackets: [::1]")
		return
	}
	if host := u.Hostname(); host == "" || strings.ContainsAny(host, " \t<>\"") {
		k.add(path, "names no host", "")
	}
	if port := u.Port(); port != "" && !isPort(port) {
		k.add(path, "has a port that is not a number up to 65535", "")
	}
	if _, ok := u.User.Password(); ok {
		k.add(path, "holds a password", passwordHint(path))
	}
	if u.Fragment != "" {
		k.add(path, "has a fragment (#...)", "")
	}
}

// passwordHint says where a password goes that was written into an address.
func passwordHint(path string) string {
	switch {
	case path == "redis.url":
		return "write a reference in redis.password"
	case path == "nats.url":
		return "write a reference to a credentials file in nats.credentials"
	case strings.HasSuffix(path, ".smtp"):
		return "write a reference in password"
	case strings.HasSuffix(path, ".webhook.url"):
		return "put the whole address in a file and write file:PATH"
	}
	return "an address without one is wanted"
}

// overLoopback reports http:// to anywhere but this machine: the bearer token would travel in clear.
func (k *checker) overLoopback(path, text string) {
	u, err := url.Parse(text)
	if err != nil {
		return
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		k.add(path, "http:// is only for loopback addresses", "write https://")
	}
	if u.RawQuery != "" {
		k.add(path, "has a query (?...)", "")
	}
}

func (k *checker) tls(t TLS, path string) {
	if t.Cert != "" && t.Key == "" {
		k.add(path+".cert", "has no key", "add "+path+".key")
	}
	if t.Key != "" && t.Cert == "" {
		k.add(path+".key", "has no certificate", "add "+path+".cert")
	}
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == text
}

// isLoopback reports whether a host can only be this machine. A name other than localhost can be anything.
func isLoopback(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}
