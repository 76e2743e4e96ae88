package config

import "time"

// Defaults is the configuration of an empty file: one process, everything embedded, nothing to watch.
func Defaults() *Config {
	return &Config{
		Version: Version,
		NATS: NATS{
			Replicas:  1,
			Sync:      SyncInterval,
			MaxBytes:  1 << 30,
			Retention: Duration(168 * time.Hour),
		},
		DataDir:       "./data",
		Timezone:      "UTC",
		ShutdownGrace: Duration(25 * time.Second),
		HTTP:          HTTP{Listen: "127.0.0.1:9464"},
		Log:           Log{Level: LevelInfo, Format: FormatJSON},
		Watch: Watch{
			RequestsPerMinute: 40,
			LookEvery:         Duration(5 * time.Second),
			DiscoverEvery:     Duration(time.Minute),
			GiveUp:            Duration(720 * time.Hour),
		},
	}
}

// DefaultSink is a sink of the given kind with all that the file may leave out, for [Defaults] has no sinks.
func DefaultSink(kind Kind) Sink {
	s := Sink{
		Concurrency: DefaultConcurrency(kind),
		Retry: Retry{
			Schedule: []Duration{
				Duration(5 * time.Second), Duration(30 * time.Second), Duration(2 * time.Minute),
				Duration(10 * time.Minute), Duration(30 * time.Minute), Duration(2 * time.Hour), Duration(5 * time.Hour),
			},
			Jitter: 0.2,
		},
	}
	switch kind {
	case KindSlack:
		s.Slack = &Slack{APIURL: "https://slack.com/api/"}
	case KindEmail:
		s.Email = &Email{}
	case KindWebhook:
		s.Webhook = &Webhook{Timeout: Duration(10 * time.Second), Mode: ModeStructured}
	case KindNone:
	}
	return s
}

// DefaultConcurrency is how many sends of a sink may be under way at once. Slack takes one message a second and
// channel, and mail servers count connections.
func DefaultConcurrency(kind Kind) int {
	switch kind {
	case KindSlack:
		return 1
	case KindEmail:
		return 2
	case KindWebhook:
		return 16
	case KindNone:
	}
	return 0
}
