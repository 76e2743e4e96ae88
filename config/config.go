// Package config is the YAML that users write, checked.
//
// [Load] reads a file strictly: an unknown key, a wrong type, a name used twice, a reference to something that does not
// exist are mistakes, and all of them are reported at once, each with file, line and column ([Errors]). What passes is
// a [Config], in which every value is set: what the file leaves out has the value of [Defaults]. Expressions are kept
// as text with their place, for whoever compiles them.
//
// Numbers and words follow YAML 1.2 where it is clear and are refused where readers of YAML disagree: a number with a
// leading zero, yes and no for true and false, a text that looks like a number and is not in quotes. A time or a size
// without a unit is refused. Nothing is expanded: a $ is a $. Anchors, aliases, tags and merge keys are not used.
//
// Paths of files are relative to the folder of the configuration file; data_dir, which is state and not
// configuration, is relative to the working directory.
package config

import "github.com/heraldbridge/herald/internal/secret"

//go:generate go test . -run ^TestSchemaIsCurrent$ -update

// Version is the form of the file that this program reads.
const Version = 1

// Config is a whole configuration file. Each role reads the parts that it needs.
type Config struct {
	Version        int            `yaml:"version" doc:"Form of this file. Another number than 1 is refused: the file is for a newer Herald."`
	NATS           NATS           `yaml:"nats" doc:"The event bus. Without a url a server is embedded and keeps its streams under data_dir."`
	Redis          Redis          `yaml:"redis" doc:"State shared by several processes. Without a url one process keeps its state in JetStream key-value."`
	DataDir        string         `yaml:"data_dir" doc:"Folder of the embedded server, relative to the working directory. One process locks it."`
	Timezone       string         `yaml:"timezone" doc:"Time zone of times in mails and on the terminal, by its IANA name."`
	ShutdownGrace  Duration       `yaml:"shutdown_grace" doc:"How long sends under way may take after a request to stop."`
	HTTP           HTTP           `yaml:"http" doc:"The listener for health, metrics, console and registration."`
	Log            Log            `yaml:"log" doc:"What is logged, and how."`
	Tracing        Tracing        `yaml:"tracing" doc:"OpenTelemetry traces."`
	Connections    []Connection   `yaml:"connections" doc:"The Envoy connections to watch."`
	ConnectionsDir Path           `yaml:"connections_dir" doc:"Folder with one YAML document per connection, watched for changes. Empty: none."`
	Watch          Watch          `yaml:"watch" doc:"How purchases are watched."`
	Events         Events         `yaml:"events" doc:"What events carry."`
	Sinks          []Sink         `yaml:"sinks" doc:"The receivers of notifications."`
	Subscriptions  []Subscription `yaml:"subscriptions" doc:"Which events go to which sinks. For one sink the first subscription that matches wins."`

	file   string
	places map[string]Pos
	failed map[string]bool // values that could not be read; nothing more is said about them
}

// NATS places the event bus.
type NATS struct {
	URL         string        `yaml:"url" doc:"Servers of the cluster, separated by commas: nats://, tls://, ws:// or wss://. Empty: an embedded server."`
	Credentials secret.Source `yaml:"credentials" doc:"Credentials file of the NATS user."`
	TLS         TLS           `yaml:"tls" doc:"Certificates for the connection to the servers."`
	Replicas    int           `yaml:"replicas" doc:"Copies of each stream: 1, 3 or 5. An embedded server has 1." enum:"1,3,5"`
	Sync        Sync          `yaml:"sync" doc:"Embedded server only. always: an acknowledged event survives a power cut."`
	MaxBytes    Size          `yaml:"max_bytes" doc:"Largest size of the event stream. When it is full new events wait at the watcher."`
	Retention   Duration      `yaml:"retention" doc:"How long events are kept."`
}

// Redis places the shared state.
type Redis struct {
	URL      string        `yaml:"url" doc:"redis://HOST:PORT/DB, or rediss:// for TLS. Empty: none."`
	Username string        `yaml:"username" doc:"User name. Empty: the default user."`
	Password secret.Source `yaml:"password" doc:"Password of the user."`
	TLS      TLS           `yaml:"tls" doc:"Certificates for rediss://."`
}

// HTTP is the listener of a process.
type HTTP struct {
	Listen string        `yaml:"listen" doc:"Address and port. Port 0: any free port."`
	Token  secret.Source `yaml:"token" doc:"Bearer token of all pages but /healthz and /readyz. Required unless listen is a loopback address."`
}

// Log says what is logged.
type Log struct {
	Level  LogLevel  `yaml:"level" doc:"The least severe lines that are written."`
	Format LogFormat `yaml:"format" doc:"json for machines, text for a terminal."`
}

// Tracing says where traces go.
type Tracing struct {
	OTLPEndpoint string `yaml:"otlp_endpoint" doc:"http:// or https:// address of an OpenTelemetry collector. Empty: off."`
}

// TLS names certificate files in PEM form. Empty paths mean the system's authorities and no client certificate.
type TLS struct {
	CA   Path `yaml:"ca" doc:"Authorities to trust in place of the system's."`
	Cert Path `yaml:"cert" doc:"Client certificate. Wants key."`
	Key  Path `yaml:"key" doc:"Private key of the client certificate. Wants cert."`
}

// Connection is one Envoy connection of an agent host.
type Connection struct {
	Name    string        `yaml:"name" doc:"Name in events and subjects." pattern:"^[A-Za-z0-9_-]{1,64}$" required:"true"`
	BaseURL string        `yaml:"base_url" doc:"Address of the Envoy API. http:// only for loopback addresses." required:"true"`
	Token   secret.Source `yaml:"token" doc:"Bearer token of the connection." required:"true"`
	Proof   *Proof        `yaml:"proof" doc:"Maker of installation proofs, for a connection bound to a key."`

	// Place is where the connection is written. It is zero for one made by a program.
	Place Pos `yaml:"-"`
}

// Proof says who makes installation proofs: a command or a local socket.
type Proof struct {
	Command []string `yaml:"command" doc:"Program and arguments, run without a shell for each request."`
	Socket  Path     `yaml:"socket" doc:"Unix socket that is asked for each request."`
}

// Watch says how purchases are watched.
type Watch struct {
	RequestsPerMinute int      `yaml:"requests_per_minute" doc:"Share, per token, of the 120 requests a minute that Envoy allows it." minimum:"1" maximum:"120"`
	LookEvery         Duration `yaml:"look_every" doc:"Fastest pace of looks. It slows down by itself as a state lasts."`
	DiscoverEvery     Duration `yaml:"discover_every" doc:"Pace of looks for purchases that nobody registered."`
	HoldThroughReady  bool     `yaml:"hold_through_ready" doc:"Hold reads of one-time cards in processing and verifying. A reply may then carry a card, which is dropped undecoded, and the read releases it."`
	Others            bool     `yaml:"others" doc:"Publish also purchases that the user's other agent hosts made."`
	GiveUp            Duration `yaml:"give_up" doc:"How long an ended purchase is read whose money is not settled."`
}

// Events says what events carry.
type Events struct {
	IncludePersonal bool `yaml:"include_personal" doc:"Let events carry personal fields. Each sink names those that it passes on."`
}

// Subscription sends the events that match to sinks.
type Subscription struct {
	Name    string   `yaml:"name" doc:"Name of the subscription." pattern:"^[A-Za-z0-9_-]{1,64}$" required:"true"`
	Match   Expr     `yaml:"match" doc:"CEL expression over the event." required:"true"`
	For     Duration `yaml:"for" doc:"Notify only if the event has matched without a break for so long."`
	Urgent  Expr     `yaml:"urgent" doc:"CEL expression: notify at once, with the sink's mention."`
	Repeat  Duration `yaml:"repeat" doc:"Remind at this pace while the match lasts. Left out: never."`
	Resolve bool     `yaml:"resolve" doc:"Tell when it ends, to those who were told that it began."`
	Sinks   []string `yaml:"sinks" doc:"Names of the sinks." required:"true"`
}
