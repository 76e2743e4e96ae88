package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/secret"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/email"
	"github.com/heraldbridge/herald/internal/sinks/slack"
	"github.com/heraldbridge/herald/internal/sinks/webhook"
)

// builtSink is a sink with the block of the file that it came from.
type builtSink struct {
	cfg        config.Sink
	sink       sinks.Sink
	personal   []string
	newestOnly bool // told to people, who want the newest state and not its history
	inFlight   int
	limit      time.Duration // of one try; zero: the sink has limits of its own
}

// Sends at once where the file does not say.
const (
	concurrencyWebhook = 16
	concurrencyEmail   = 2
	concurrencySlack   = 1
)

// buildSinks builds every sink of the file. Its errors are config.Errors.
func buildSinks(ctx context.Context, cfg *config.Config) ([]builtSink, error) {
	zone, err := time.LoadLocation(cfg.Timezone)
	if err != nil {
		return nil, fmt.Errorf("load timezone: %w", err)
	}
	var out []builtSink
	var mistakes config.Errors
	for i, s := range cfg.Sinks {
		b, err := buildSink(ctx, s, zone)
		if err != nil {
			path := fmt.Sprintf("sinks[%d].%s", i, s.Kind())
			mistakes = append(mistakes, mistake(cfg, path, err))
			continue
		}
		out = append(out, b)
	}
	if len(mistakes) > 0 {
		return nil, mistakes
	}
	return out, nil
}

// mistake places an error in the file.
func mistake(cfg *config.Config, path string, err error) config.Error {
	at := cfg.At(path)
	return config.Error{File: at.File, Line: at.Line, Column: at.Column, Path: path, Problem: err.Error()}
}

// buildSink is the one list of sinks: a new sink is one more case.
func buildSink(ctx context.Context, s config.Sink, zone *time.Location) (builtSink, error) {
	b := builtSink{cfg: s, inFlight: s.Concurrency}
	var err error
	switch s.Kind() {
	case config.KindSlack:
		b.sink, err = buildSlack(s, zone)
		b.personal, b.newestOnly = fields(s.Slack.Personal), true
		b.inFlight = orElse(b.inFlight, concurrencySlack)
	case config.KindEmail:
		b.sink, err = buildEmail(s, zone)
		b.personal, b.newestOnly = fields(s.Email.Personal), true
		b.inFlight = orElse(b.inFlight, concurrencyEmail)
	case config.KindWebhook:
		b.sink, err = buildWebhook(ctx, s, zone)
		b.personal, b.newestOnly = fields(s.Webhook.Personal), s.Webhook.Preset != config.PresetNone
		b.limit = cmp.Or(time.Duration(s.Webhook.Timeout), webhook.DefaultTimeout)
		b.inFlight = orElse(b.inFlight, concurrencyWebhook)
	case config.KindNone:
		err = errors.New("names no receiver")
	}
	return b, err
}

func orElse(n, usual int) int {
	if n > 0 {
		return n
	}
	return usual
}

func fields(in []config.PersonalField) []string {
	out := make([]string, 0, len(in))
	for _, f := range in {
		out = append(out, string(f))
	}
	return out
}

// read gives nil for a source that is not set.
func read(s secret.Source) func(context.Context) (secret.Value, error) {
	if s.IsZero() {
		return nil
	}
	return s.Read
}

func buildSlack(s config.Sink, zone *time.Location) (sinks.Sink, error) {
	allow, err := namedLoopback(s.Slack.APIURL)
	if err != nil {
		return nil, err
	}
	return slack.New(slack.Config{
		Name: s.Name, BotToken: read(s.Slack.BotToken), Channel: s.Slack.Channel,
		WebhookURL: read(s.Slack.WebhookURL), APIURL: s.Slack.APIURL, Mention: s.Slack.Mention,
		Location: zone, AllowCIDRs: allow,
	})
}

// namedLoopback allows the one address that an operator wrote out as the API
// to use. A name that resolves to loopback stays refused.
func namedLoopback(api string) ([]netip.Prefix, error) {
	u, err := url.Parse(api)
	if err != nil {
		return nil, errors.New("api_url is no URL")
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsLoopback() {
		return []netip.Prefix{netip.PrefixFrom(ip, ip.BitLen())}, nil
	}
	return nil, nil
}

func buildEmail(s config.Sink, zone *time.Location) (sinks.Sink, error) {
	u, err := url.Parse(s.Email.SMTP)
	if err != nil {
		return nil, errors.New("smtp is no URL")
	}
	mode, port := email.ModeSTARTTLS, 587
	switch u.Scheme {
	case "smtps":
		mode, port = email.ModeImplicit, 465
	case "smtp+plain":
		mode, port = email.ModePlain, 25
	}
	if p := u.Port(); p != "" {
		if port, err = strconv.Atoi(p); err != nil {
			return nil, fmt.Errorf("read port of smtp: %w", err)
		}
	}
	return email.New(email.Config{
		Name: s.Name, Mode: mode, Host: u.Hostname(), Port: port,
		Username: s.Email.Username, Password: read(s.Email.Password),
		Auth: email.Auth(strings.ToUpper(string(s.Email.Auth))), // the file has the same names in small letters
		From: s.Email.From, To: s.Email.To, TLS: sinkTLS(s.Email.TLS), Location: zone,
	})
}

func sinkTLS(t config.TLS) sinks.TLS {
	return sinks.TLS{CA: string(t.CA), Cert: string(t.Cert), Key: string(t.Key)}
}

func buildWebhook(ctx context.Context, s config.Sink, zone *time.Location) (sinks.Sink, error) {
	// Address and headers are read now; one that changes needs a reload, a
	// signing secret does not.
	w := s.Webhook
	target, err := w.URL.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("read url: %w", err)
	}
	headers := make(map[string]secret.Value, len(w.Headers))
	for name, text := range w.Headers {
		if headers[name], err = text.Read(ctx); err != nil {
			return nil, fmt.Errorf("read header %s: %w", name, err)
		}
	}
	var template string
	if w.Template != "" {
		b, err := os.ReadFile(string(w.Template))
		if err != nil {
			return nil, fmt.Errorf("read template: %w", err)
		}
		template = string(b)
	}
	return webhook.New(webhook.Config{
		Name: s.Name, URL: target, Secrets: readAll(w.Secrets), Headers: headers,
		Timeout: time.Duration(w.Timeout), Mode: webhook.Mode(w.Mode), TLS: sinkTLS(w.TLS),
		Proxy: w.Proxy, AllowCIDRs: w.AllowCIDRs, Preset: webhook.Preset(w.Preset),
		Template: template, ContentType: w.ContentType, Location: zone,
	})
}

// readAll reads several sources, all or none: a delivery is signed by every
// secret of the file or fails.
func readAll(sources []secret.Source) func(context.Context) ([]secret.Value, error) {
	if len(sources) == 0 {
		return nil
	}
	return func(ctx context.Context) ([]secret.Value, error) {
		out := make([]secret.Value, 0, len(sources))
		for _, s := range sources {
			v, err := s.Read(ctx)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	}
}
