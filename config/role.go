package config

// Role is what a process does with a configuration.
type Role string

// The roles.
const (
	RoleHerald   Role = "herald"   // everything in one process
	RoleWatcher  Role = "watcher"  // watches only
	RoleNotifier Role = "notifier" // delivers only

	everyRole Role = "" // as for herald, which reads all of it
)

// watches reports whether a role reads from Envoy.
func (r Role) watches() bool { return r != RoleNotifier }

// delivers reports whether a role sends to sinks.
func (r Role) delivers() bool { return r != RoleWatcher }

// NeedsRedis reports whether a role shares its state with other processes and so cannot do without Redis.
func NeedsRedis(role Role) bool {
	switch role {
	case RoleWatcher, RoleNotifier:
		return true
	case RoleHerald, everyRole:
	}
	return false
}

// ForRole reports as [Errors] what the role needs and the configuration lacks. [Config.Validate] looks at all the rest.
func (c *Config) ForRole(role Role) error {
	k := c.checker()
	if NeedsRedis(role) {
		if c.NATS.URL == "" {
			k.add("nats.url", "is missing", "the role "+string(role)+" works with a NATS server outside of it")
		}
		if c.Redis.URL == "" {
			k.add("redis.url", "is missing", "the role "+string(role)+" shares its state with other processes")
		}
	}
	if role.watches() && len(c.Connections) == 0 && c.ConnectionsDir == "" {
		k.add("connections", "is empty", "the role "+string(role)+" needs a connection to watch, or connections_dir")
	}
	return k.errs.orNil()
}
