package config

import (
	"net/netip"

	"github.com/heraldbridge/herald/internal/secret"
)

// Sink is one receiver of notifications. Exactly one of Slack, Email and Webhook is set.
type Sink struct {
	Name        string   `yaml:"name" doc:"Name of the sink and its backlog. Renaming is removing and adding." pattern:"^[a-z0-9-]{1,48}$" required:"true"`
	Concurrency int      `yaml:"concurrency" doc:"Sends at once, never two of one purchase. Left out: webhook 16, email 2, slack 1." minimum:"1" maximum:"256"`
	MaxRate     float64  `yaml:"max_rate" doc:"Most sends per second. 0: no limit, but for Slack one a second per channel." minimum:"0"`
	Retry       Retry    `yaml:"retry" doc:"When a failed notification is tried again."`
	Slack       *Slack   `yaml:"slack" doc:"A Slack channel."`
	Email       *Email   `yaml:"email" doc:"Mail over SMTP."`
	Webhook     *Webhook `yaml:"webhook" doc:"An HTTP receiver of CloudEvents."`
}

// Kind says which receiver is set; [KindNone] when none is.
func (s Sink) Kind() Kind {
	switch {
	case s.Slack != nil:
		return KindSlack
	case s.Email != nil:
		return KindEmail
	case s.Webhook != nil:
		return KindWebhook
	}
	return KindNone
}

// Retry says when a failed notification is tried again.
type Retry struct {
	Schedule []Duration `yaml:"schedule" doc:"Waits before the second and every further try. After the last the notification is a dead letter."`
	Jitter   float64    `yaml:"jitter" doc:"How far each wait may differ, as a share of it." minimum:"0" maximum:"1"`
}

// Slack is a Slack channel, reached by a bot token or by an incoming webhook.
type Slack struct {
	BotToken   secret.Source   `yaml:"bot_token" doc:"Token of a bot that may post to the channel. Not with webhook_url."`
	Channel    string          `yaml:"channel" doc:"Id of the channel. With bot_token only."`
	APIURL     string          `yaml:"api_url" doc:"Address of the Slack Web API."`
	WebhookURL secret.Source   `yaml:"webhook_url" doc:"Address of an incoming webhook. It is a secret."`
	Mention    string          `yaml:"mention" doc:"Who is mentioned when it is urgent, in Slack's notation: <!subteam^S0123456789>, <@U0123456789>, <!here>."`
	Personal   []PersonalField `yaml:"personal" doc:"Personal fields to pass on. They need events.include_personal."`
}

// Email is a mailbox, or several that get one mail.
type Email struct {
	SMTP     string          `yaml:"smtp" doc:"smtps://HOST:PORT, smtp:// for STARTTLS, which is then required, smtp+plain:// for no encryption."`
	Username string          `yaml:"username" doc:"User name at the mail server. Empty: no login."`
	Password secret.Source   `yaml:"password" doc:"Password at the mail server. For auth xoauth2 an access token, read anew for each mail."`
	Auth     EmailAuth       `yaml:"auth" doc:"How to log in. Left out: the strongest way that the server offers. Named: this one or none."`
	TLS      TLS             `yaml:"tls" doc:"Certificates for the connection to the mail server."`
	From     string          `yaml:"from" doc:"Sender, with or without a display name." required:"true"`
	To       []string        `yaml:"to" doc:"Recipients, with or without display names." required:"true"`
	Personal []PersonalField `yaml:"personal" doc:"Personal fields to pass on. They need events.include_personal."`
}

// Webhook is an HTTP receiver.
type Webhook struct {
	URL         Text            `yaml:"url" doc:"Address of the receiver, or a reference to it when it holds a secret." required:"true"`
	Secrets     []secret.Source `yaml:"secrets" doc:"Signing secrets. Each signs every delivery, so that they can be exchanged without a gap. For the preset pagerduty the first is its routing key."`
	Timeout     Duration        `yaml:"timeout" doc:"Longest time of one try."`
	Headers     map[string]Text `yaml:"headers" doc:"Further headers. A value that is secret is a reference."`
	TLS         TLS             `yaml:"tls" doc:"Certificates for the connection to the receiver."`
	Proxy       string          `yaml:"proxy" doc:"Proxy: http://, https:// or socks5://. Empty: none."`
	Mode        Mode            `yaml:"mode" doc:"Where CloudEvents attributes are: structured in the body, binary in headers."`
	AllowCIDRs  []netip.Prefix  `yaml:"allow_cidrs" doc:"Private and loopback ranges that this sink may reach."`
	Personal    []PersonalField `yaml:"personal" doc:"Personal fields to pass on. They need events.include_personal."`
	Preset      Preset          `yaml:"preset" doc:"Body for a well-known receiver. Not with template."`
	Template    Path            `yaml:"template" doc:"Go template of the body. Not with preset."`
	ContentType string          `yaml:"content_type" doc:"Content-Type of the template's output."`
}
