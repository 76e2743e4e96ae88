package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/dedupe"
	"github.com/heraldbridge/herald/internal/stream"
	"github.com/heraldbridge/herald/internal/telemetry"
)

// server opens the listener of health, metrics, registration and API.
func (a *App) server(ctx context.Context) (*telemetry.Server, error) {
	o := telemetry.ServerOptions{
		Listen: a.Config.HTTP.Listen, Health: a.health, Registry: a.registry, Pages: a.api, Log: a.Log,
		Open: console.ShellPaths(), // the page without its data: it asks for the token
	}
	if src := a.Config.HTTP.Token; !src.IsZero() {
		o.Token = func(ctx context.Context) (string, error) {
			v, err := src.Read(ctx)
			return v.Reveal(), err
		}
	}
	if err := a.health.Register(a.registry); err != nil {
		return nil, err
	}
	s, err := telemetry.NewServer(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("listen on %s (http.listen): %w", a.Config.HTTP.Listen, err)
	}
	return s, nil
}

// credentialsTimeout bounds a command that gives NATS credentials; the client
// asks for them at each connect.
const credentialsTimeout = 10 * time.Second

// natsAccess reads what is needed to reach the servers.
func natsAccess(ctx context.Context, n config.NATS, o *stream.Options) error {
	if src := n.Credentials; !src.IsZero() {
		o.Credentials = func() ([]byte, error) {
			ctx, cancel := context.WithTimeout(ctx, credentialsTimeout)
			defer cancel()
			v, err := src.Read(ctx)
			return []byte(v.Reveal()), err
		}
	}
	t, err := tlsConfig(n.TLS)
	if err != nil {
		return fmt.Errorf("read nats.tls: %w", err)
	}
	o.TLS = t
	return nil
}

// redisOptions says how to reach Redis.
func redisOptions(r config.Redis) (dedupe.RedisOptions, error) {
	o := dedupe.RedisOptions{URL: r.URL}
	if src := r.Password; !src.IsZero() {
		o.Credentials = func(ctx context.Context) (string, string, error) {
			v, err := src.Read(ctx)
			return r.Username, v.Reveal(), err
		}
	}
	t, err := tlsConfig(r.TLS)
	if err != nil {
		return o, fmt.Errorf("read redis.tls: %w", err)
	}
	o.TLS = t
	return o, nil
}

// tlsConfig gives nil where nothing is set: the system's defaults.
func tlsConfig(t config.TLS) (*tls.Config, error) {
	if t == (config.TLS{}) {
		return nil, nil //nolint:nilnil // nil is the library's own word for defaults
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		pem, err := os.ReadFile(string(t.CA))
		if err != nil {
			return nil, fmt.Errorf("read authorities: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read authorities: no certificate in %s", t.CA)
		}
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(string(t.Cert), string(t.Key))
		if err != nil {
			return nil, fmt.Errorf("read client certificate: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}
