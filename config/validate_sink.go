package config

import (
	"fmt"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

const mention = `<(!here|!channel|!everyone|!subteam\^[A-Z0-9]+|@[A-Z0-9]+)>`

var (
	sinkName = regexp.MustCompile(`^[a-z0-9-]{1,48}$`)
	mentions = regexp.MustCompile(`^` + mention + `( ` + mention + `)*$`)
)

func (k *checker) sink(s *Sink, path string) {
	k.name(path+".name", s.Name, sinkName, "up to 48 of a-z, 0-9 and -")
	k.oneOf(path, given{"slack", s.Slack != nil}, given{"email", s.Email != nil}, given{"webhook", s.Webhook != nil})
	if s.Kind() != KindNone && (s.Concurrency < 1 || s.Concurrency > 256) {
		k.add(path+".concurrency", "is not between 1 and 256", "")
	}
	if s.MaxRate < 0 {
		k.add(path+".max_rate", "is negative", "write 0 for no limit")
	}
	k.retry(s.Retry, path+".retry")
	if s.Slack != nil {
		k.slack(s.Slack, path+".slack")
	}
	if s.Email != nil {
		k.email(s.Email, path+".email")
	}
	if s.Webhook != nil {
		k.webhook(s.Webhook, path+".webhook")
	}
}

func (k *checker) retry(r Retry, path string) {
	if len(r.Schedule) == 0 {
		k.add(path+".schedule", "is empty", "leave it out for the usual one")
	}
	for i, wait := range r.Schedule {
		if wait <= 0 {
			k.add(fmt.Sprintf("%s.schedule[%d]", path, i), "is zero", "")
		}
	}
	if r.Jitter < 0 || r.Jitter > 1 {
		k.add(path+".jitter", "is not between 0 and 1", "0.2 means up to 20 % more or less")
	}
}

func (k *checker) slack(s *Slack, path string) {
	k.oneOf(path, given{"bot_token", !s.BotToken.IsZero()}, given{"webhook_url", !s.WebhookURL.IsZero()})
	k.needed(path+".channel", !s.BotToken.IsZero() && s.Channel == "")
	if !s.WebhookURL.IsZero() && s.Channel != "" {
		k.add(path+".channel", "is not used with webhook_url", "an incoming webhook has its channel already")
	}
	if strings.ContainsAny(s.Channel, " \t\r\n,<>") {
		k.add(path+".channel", "is not the id or name of a channel", "")
	}
	k.address(path+".api_url", s.APIURL, "https", "http")
	k.overLoopback(path+".api_url", s.APIURL)
	if s.Mention != "" && !mentions.MatchString(s.Mention) {
		k.add(path+".mention", "is not a mention that Slack knows", "write <!subteam^ID>, <@ID> or <!here>")
	}
	k.personal(s.Personal, path)
}

func (k *checker) email(e *Email, path string) {
	k.needed(path+".smtp", e.SMTP == "")
	if e.SMTP != "" {
		k.smtp(e, path)
	}
	if e.Username != "" && e.Password.IsZero() {
		k.add(path+".username", "has no password", "add "+path+".password")
	}
	if e.Username == "" && !e.Password.IsZero() {
		k.add(path+".password", "has no user name", "add "+path+".username")
	}
	if e.Auth != AuthStrongest {
		k.enum(path+".auth", e.Auth)
		if e.Username == "" {
			k.add(path+".auth", "has nobody to log in", "add "+path+".username and "+path+".password, or leave it out")
		}
	}
	k.tls(e.TLS, path+".tls")
	k.needed(path+".from", e.From == "")
	if e.From != "" {
		k.mailbox(path+".from", e.From)
	}
	k.needed(path+".to", len(e.To) == 0)
	seen := map[string]bool{}
	for i, to := range e.To {
		at := fmt.Sprintf("%s.to[%d]", path, i)
		address := k.mailbox(at, to)
		if address != "" && seen[address] {
			k.add(at, "is named twice", "")
		}
		seen[address] = true
	}
	k.personal(e.Personal, path)
}

func (k *checker) smtp(e *Email, path string) {
	at := path + ".smtp"
	k.address(at, e.SMTP, "smtps", "smtp", "smtp+plain")
	u, err := url.Parse(e.SMTP)
	if err != nil {
		return
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		k.add(at, "has more than a host and a port", "")
	}
	if u.Scheme == "smtp+plain" && !e.Password.IsZero() && !isLoopback(u.Hostname()) {
		k.add(at, "smtp+plain:// would send the password in clear", "write smtps:// or smtp://")
	}
	if u.Scheme == "smtp+plain" && e.Auth.bound() {
		k.add(path+".auth", "is tied to TLS, which smtp+plain:// does without", "write smtps:// or smtp://, or a login without -plus")
	}
	if u.Scheme == "smtp+plain" && e.TLS != (TLS{}) {
		k.add(path+".tls", "is not used by smtp+plain://", "")
	}
}

// mailbox checks one mail address with or without a display name, and gives the bare address in small letters.
func (k *checker) mailbox(path, text string) string {
	a, err := mail.ParseAddress(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		k.add(path, fmt.Sprintf("%s is not a mail address", quote(text)), "write name@example.com or Display Name <name@example.com>")
		return ""
	}
	return strings.ToLower(a.Address)
}

func (k *checker) webhook(w *Webhook, path string) {
	k.needed(path+".url", w.URL.IsZero())
	if w.URL.Plain != "" {
		k.address(path+".url", w.URL.Plain, "https", "http")
	}
	if w.Timeout <= 0 || w.Timeout > Duration(5*time.Minute) {
		k.add(path+".timeout", "is not between 0s and 5m", "")
	}
	for i, s := range w.Secrets {
		k.needed(fmt.Sprintf("%s.secrets[%d]", path, i), s.IsZero())
	}
	for name, value := range w.Headers {
		k.header(name, value, join(path+".headers", name))
	}
	k.tls(w.TLS, path+".tls")
	if w.Proxy != "" {
		k.address(path+".proxy", w.Proxy, "http", "https", "socks5")
	}
	k.enum(path+".mode", w.Mode)
	if w.Preset != PresetNone {
		k.enum(path+".preset", w.Preset)
	}
	if w.Preset == PresetPagerDuty && len(w.Secrets) == 0 {
		k.add(path+".secrets", "is missing", "pagerduty takes the first as its routing key")
	}
	if w.Preset != PresetNone && w.Template != "" {
		k.add(path+".template", "stands beside preset", "one of them makes the body")
	}
	if w.ContentType != "" && w.Template == "" {
		k.add(path+".content_type", "is only for a template", "")
	}
	if strings.ContainsAny(w.ContentType, "\r\n") || w.ContentType != "" && !strings.Contains(w.ContentType, "/") {
		k.add(path+".content_type", "is not a media type", "")
	}
	k.personal(w.Personal, path)
}

func (k *checker) header(name string, value Text, path string) {
	lower := strings.ToLower(name)
	if !httpguts.ValidHeaderFieldName(name) {
		k.add(path, fmt.Sprintf("%s is not the name of a header", quote(name)), "")
		return
	}
	if isOwnHeader(lower) {
		k.add(path, "this header is set by the sink itself", "")
	}
	if value.Plain != "" && !httpguts.ValidHeaderFieldValue(value.Plain) {
		k.add(path, "holds a character that a header cannot", "")
	}
	if value.Plain != "" && isSecretHeader(lower) {
		k.add(path, "a secret is never written here itself", referenceHint)
	}
	k.needed(path, value.IsZero())
}

// isOwnHeader reports headers that say how the body is framed, signed or numbered.
func isOwnHeader(lower string) bool {
	switch lower {
	case "content-type", "content-length", "content-encoding", "transfer-encoding", "connection", "host", "trailer", "te",
		"upgrade", "expect", "webhook-id", "webhook-timestamp", "webhook-signature", "herald-replay":
		return true
	}
	return strings.HasPrefix(lower, "ce-")
}

// isSecretHeader reports headers whose value is a credential by their name.
func isSecretHeader(lower string) bool {
	switch lower {
	case "authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "apikey":
		return true
	}
	return strings.HasSuffix(lower, "-token") || strings.HasSuffix(lower, "-secret") || strings.HasSuffix(lower, "-password")
}

func (k *checker) personal(fields []PersonalField, path string) {
	for i, field := range fields {
		at := fmt.Sprintf("%s.personal[%d]", path, i)
		if slices.Index(fields, field) < i {
			k.add(at, fmt.Sprintf("%s is named twice", quote(string(field))), "")
		}
		k.enum(at, field)
	}
}
