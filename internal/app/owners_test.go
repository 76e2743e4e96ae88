package app

import (
	"testing"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/secret"
)

func TestSlackSinksOfOneChannelShareAPace(t *testing.T) {
	slack := func(channel string, rate float64) config.Sink {
		return config.Sink{MaxRate: rate, Slack: &config.Slack{Channel: channel}}
	}
	hook := func(file string) config.Sink {
		return config.Sink{Slack: &config.Slack{WebhookURL: secret.File(file)}}
	}
	var p paces
	ops := p.of(slack("C1", 0))
	if ops == nil {
		t.Fatal("a Slack sink has no pace")
	}
	for name, same := range map[string]bool{
		"the same channel":     p.of(slack("C1", 0)) == ops,
		"its rate written out": p.of(slack("C1", 1)) == ops,
		"one webhook":          shared(&p, hook("a"), hook("a")),
		"a webhook has none":   p.of(config.Sink{Webhook: &config.Webhook{}}) == nil,
	} {
		if !same {
			t.Errorf("%s: not shared", name)
		}
	}
	for name, same := range map[string]bool{
		"another channel": p.of(slack("C2", 0)) == ops,
		"another rate":    p.of(slack("C1", 2)) == ops,
		"another webhook": p.of(hook("a")) == p.of(hook("b")),
	} {
		if same {
			t.Errorf("%s: shared", name)
		}
	}
}

func shared(p *paces, a, b config.Sink) bool { return p.of(a) == p.of(b) }
