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

// EmailAuth is a way to log in at a mail server. The zero EmailAuth takes the strongest that the server offers.
type EmailAuth string

// The words of [EmailAuth], the strongest first: the names of the mechanisms in small letters.
const (
	AuthStrongest       EmailAuth = ""
	AuthScramSHA256Plus EmailAuth = "scram-sha-256-plus"
	AuthScramSHA1Plus   EmailAuth = "scram-sha-1-plus"
	AuthScramSHA256     EmailAuth = "scram-sha-256"
	AuthScramSHA1       EmailAuth = "scram-sha-1"
	AuthCRAMMD5         EmailAuth = "cram-md5"
	AuthPlain           EmailAuth = "plain"
	AuthLogin           EmailAuth = "login"
	AuthXOAUTH2         EmailAuth = "xoauth2"
)

func (EmailAuth) words() []string {
	return []string{
		string(AuthScramSHA256Plus), string(AuthScramSHA1Plus), string(AuthScramSHA256), string(AuthScramSHA1),
		string(AuthCRAMMD5), string(AuthPlain), string(AuthLogin), string(AuthXOAUTH2),
	}
}

// bound reports a login that is tied to the TLS connection.
func (a EmailAuth) bound() bool { return a == AuthScramSHA256Plus || a == AuthScramSHA1Plus }

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
