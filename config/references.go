package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/heraldbridge/herald/internal/secret"
)

// CheckReferences reports as [Errors] what the configuration names and does not exist or cannot be read: files and
// variables with secrets, certificates, templates, folders, time zones. Secrets are read and forgotten; commands are
// not run.
func (c *Config) CheckReferences() error { return c.checkReferences(everyRole).orNil() }

func (c *Config) checkReferences(role Role) Errors {
	k := c.checker()
	c.eachSource(role, k.readable)
	c.eachPath(role, k.exists)
	if c.ConnectionsDir != "" && role.watches() {
		if info, err := os.Stat(string(c.ConnectionsDir)); err != nil {
			k.add("connections_dir", outside(err), "")
		} else if !info.IsDir() {
			k.add("connections_dir", "is not a folder", "")
		}
	}
	return k.errs
}

// eachSource visits every reference to a secret that a role reads, with its path.
func (c *Config) eachSource(role Role, visit func(path string, s secret.Source)) {
	visit("nats.credentials", c.NATS.Credentials)
	visit("redis.password", c.Redis.Password)
	visit("http.token", c.HTTP.Token)
	if role.watches() {
		for i, conn := range c.Connections {
			visit(fmt.Sprintf("connections[%d].token", i), conn.Token)
		}
	}
	if !role.delivers() {
		return
	}
	for i, s := range c.Sinks {
		path := fmt.Sprintf("sinks[%d]", i)
		if s.Slack != nil {
			visit(path+".slack.bot_token", s.Slack.BotToken)
			visit(path+".slack.webhook_url", s.Slack.WebhookURL)
		}
		if s.Email != nil {
			visit(path+".email.password", s.Email.Password)
		}
		if w := s.Webhook; w != nil {
			visit(path+".webhook.url", w.URL.Source)
			for j, key := range w.Secrets {
				visit(fmt.Sprintf("%s.webhook.secrets[%d]", path, j), key)
			}
			for name, value := range w.Headers {
				visit(join(path+".webhook.headers", name), value.Source)
			}
		}
	}
}

// eachPath visits every file that a role reads and that is not a reference to a secret, with its path.
func (c *Config) eachPath(role Role, visit func(path string, file Path)) {
	certificates := func(path string, t TLS) {
		visit(path+".tls.ca", t.CA)
		visit(path+".tls.cert", t.Cert)
		visit(path+".tls.key", t.Key)
	}
	certificates("nats", c.NATS.TLS)
	certificates("redis", c.Redis.TLS)
	if !role.delivers() {
		return
	}
	for i, s := range c.Sinks {
		path := fmt.Sprintf("sinks[%d]", i)
		if s.Email != nil {
			certificates(path+".email", s.Email.TLS)
		}
		if s.Webhook != nil {
			certificates(path+".webhook", s.Webhook.TLS)
			visit(path+".webhook.template", s.Webhook.Template)
		}
	}
}

// readable reports a secret that cannot be read now. A command may be slow or need a service that is not up yet.
func (k *checker) readable(path string, s secret.Source) {
	if s.Kind() != secret.KindFile && s.Kind() != secret.KindEnv {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := s.Read(ctx)
	if err == nil {
		return
	}
	problem := strings.TrimPrefix(err.Error(), "read secret: ")
	var file *fs.PathError
	if errors.As(err, &file) {
		problem = outside(err)
	}
	k.add(path, problem, "")
}

func (k *checker) exists(path string, file Path) {
	if file == "" {
		return
	}
	f, err := os.Open(string(file))
	if err != nil {
		k.add(path, outside(err), "")
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		k.add(path, fmt.Sprintf("%s is a folder", file), "")
	}
}

// outside says in few words why a file cannot be used, the same on every system.
func outside(err error) string {
	var file *fs.PathError
	name := "the file"
	if errors.As(err, &file) {
		name = file.Path
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return name + " does not exist"
	case errors.Is(err, fs.ErrPermission):
		return name + " may not be read by this user"
	case file != nil:
		return fmt.Sprintf("%s cannot be read: %v", name, file.Err)
	}
	return fmt.Sprintf("%s cannot be read", name)
}

// PersonalFields gives the personal fields that a sink passes on: those it names, if events carry any at all.
func (c *Config) PersonalFields(s Sink) []PersonalField {
	if !c.Events.IncludePersonal {
		return nil
	}
	return slices.Clone(s.personal())
}

func (s Sink) personal() []PersonalField {
	switch s.Kind() {
	case KindSlack:
		return s.Slack.Personal
	case KindEmail:
		return s.Email.Personal
	case KindWebhook:
		return s.Webhook.Personal
	case KindNone:
	}
	return nil
}
