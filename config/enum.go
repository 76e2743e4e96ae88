package config

// words is what a typed enumeration offers to the decoder and to the schema: all words that it may be.
type words interface{ words() []string }

// Sync says when the embedded server writes to disk for certain.
type Sync string

// The words of [Sync].
const (
	SyncInterval Sync = "interval"
	SyncAlways   Sync = "always"
)

func (Sync) words() []string { return []string{string(SyncInterval), string(SyncAlways)} }

// LogLevel is the least severe level that is written.
type LogLevel string

// The words of [LogLevel].
const (
	LevelDebug LogLevel = "debug"
	LevelInfo  LogLevel = "info"
	LevelWarn  LogLevel = "warn"
	LevelError LogLevel = "error"
)

func (LogLevel) words() []string {
	return []string{string(LevelDebug), string(LevelInfo), string(LevelWarn), string(LevelError)}
}

// LogFormat is the form of log lines.
type LogFormat string

// The words of [LogFormat].
const (
	FormatJSON LogFormat = "json"
	FormatText LogFormat = "text"
)

func (LogFormat) words() []string { return []string{string(FormatJSON), string(FormatText)} }

// Mode is the content mode of a CloudEvent over HTTP.
type Mode string

// The words of [Mode].
const (
	ModeStructured Mode = "structured"
	ModeBinary     Mode = "binary"
)

func (Mode) words() []string { return []string{string(ModeStructured), string(ModeBinary)} }

// Preset is a body form for a well-known receiver. The zero Preset is none.
type Preset string

// The words of [Preset].
const (
	PresetNone      Preset = ""
	PresetPagerDuty Preset = "pagerduty"
	PresetTeams     Preset = "teams"
	PresetDiscord   Preset = "discord"
	PresetNtfy      Preset = "ntfy"
)

func (Preset) words() []string {
	return []string{string(PresetPagerDuty), string(PresetTeams), string(PresetDiscord), string(PresetNtfy)}
}

// PersonalField is an event field that may name or describe a person. The words are paths in an event's data.
type PersonalField string

// The words of [PersonalField].
const (
	PersonalDescription      PersonalField = "description"
	PersonalQuestionPrompt   PersonalField = "question.prompt"
	PersonalReceiptCardLast4 PersonalField = "receipt.card.last4"
	PersonalMerchantOrderRef PersonalField = "merchant_order_ref"
	PersonalMerchantURL      PersonalField = "merchant.url"
)

func (PersonalField) words() []string {
	return []string{
		string(PersonalDescription), string(PersonalQuestionPrompt), string(PersonalReceiptCardLast4),
		string(PersonalMerchantOrderRef), string(PersonalMerchantURL),
	}
}

// Kind is the sort of a sink.
type Kind string

// The words of [Kind].
const (
	KindNone    Kind = ""
	KindSlack   Kind = "slack"
	KindEmail   Kind = "email"
	KindWebhook Kind = "webhook"
)
