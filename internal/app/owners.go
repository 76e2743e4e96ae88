package app

import (
	"sync"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/deliver"
)

// slackRate is how many messages a second Slack takes for one channel, by its
// published limits. It holds where the file gives no max_rate.
const slackRate = 1.0

// paces are the paces that sinks of this process share: Slack counts by channel,
// whoever posts. They outlive reloads, or each would begin with a burst.
type paces struct {
	mu    sync.Mutex
	byKey map[paceKey]*deliver.Pace
}

type paceKey struct {
	place string
	rate  float64
}

// of gives the pace of a sink; nil: it has one of its own.
func (p *paces) of(s config.Sink) *deliver.Pace {
	if s.Kind() != config.KindSlack {
		return nil
	}
	key := paceKey{place: s.Slack.APIURL + " " + s.Slack.Channel, rate: s.MaxRate}
	if !s.Slack.WebhookURL.IsZero() { // it stands for its channel
		key.place = s.Slack.WebhookURL.String()
	}
	if key.rate == 0 {
		key.rate = slackRate
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byKey == nil {
		p.byKey = map[paceKey]*deliver.Pace{}
	}
	if p.byKey[key] == nil {
		p.byKey[key] = deliver.NewPace(key.rate)
	}
	return p.byKey[key]
}
