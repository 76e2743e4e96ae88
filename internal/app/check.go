package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/route"
)

// Check loads a file as a process would, builds everything that needs no
// server, runs every expression and template over sample events, and reports in
// plain lines what the file makes Herald do. Its errors are config.Errors.
func Check(ctx context.Context, file string) ([]string, error) {
	cfg, err := load(file, config.RoleHerald) //nolint:contextcheck // it reads small local files
	if err != nil {
		return nil, err
	}
	a, err := New(ctx, Options{Config: cfg, Role: config.RoleHerald, Log: slog.New(slog.DiscardHandler), Version: "check"})
	if err != nil {
		return nil, err
	}
	if err := tryExpressions(cfg); err != nil {
		return nil, err
	}
	lines := []string{fmt.Sprintf("%s: %d connections, %d sinks, %d subscriptions: all in order",
		file, len(a.wiring().hosts), len(a.wiring().sinks), len(cfg.Subscriptions))}
	return append(lines, remarks(cfg)...), ctx.Err()
}

// tryExpressions evaluates every expression on every sample event.
func tryExpressions(cfg *config.Config) error {
	var mistakes config.Errors
	for i, s := range cfg.Subscriptions {
		for field, expr := range map[string]config.Expr{"match": s.Match, "urgent": s.Urgent} {
			if err := tryExpression(expr.Text); err != nil {
				mistakes = append(mistakes, mistake(cfg, fmt.Sprintf("subscriptions[%d].%s", i, field), err))
			}
		}
	}
	if len(mistakes) > 0 {
		return mistakes
	}
	return nil
}

func tryExpression(text string) error {
	if text == "" {
		return nil
	}
	match, err := route.CompileMatch(text)
	if err != nil {
		return err
	}
	for _, e := range events.Samples() {
		if _, err := match.Match(e, time.Now()); err != nil {
			return fmt.Errorf("%w (on the sample event %s)", err, e.ID)
		}
	}
	return nil
}

// remarks says what is allowed but worth knowing.
func remarks(cfg *config.Config) []string {
	var out []string
	for _, w := range cfg.Warnings() {
		out = append(out, w.Error())
	}
	if cfg.Events.IncludePersonal {
		out = append(out, "events.include_personal: events on NATS carry descriptions, question prompts, order references and merchant paths; each sink passes on only the fields that it names")
	}
	if cfg.NATS.URL == "" {
		out = append(out, "nats.url is left out: an embedded server keeps its streams under "+cfg.DataDir)
	}
	if cfg.Redis.URL == "" {
		out = append(out, "redis.url is left out: state is kept in JetStream key-value, so one process only (herald run)")
	}
	return out
}
