package config

import (
	"fmt"
	"strings"
)

// Warnings gives what is allowed and perhaps not meant, in the order of the file. It stops nothing.
func (c *Config) Warnings() Errors {
	k := c.checker()
	if c.Watch.HoldThroughReady {
		k.add("watch.hold_through_ready", "a held read of a one-time card releases it when it becomes ready",
			"the card itself is dropped undecoded")
	}
	used := map[string]bool{}
	for _, sub := range c.Subscriptions {
		for _, name := range sub.Sinks {
			used[name] = true
		}
	}
	for i, s := range c.Sinks {
		path := fmt.Sprintf("sinks[%d]", i)
		if !used[s.Name] {
			k.add(path, fmt.Sprintf("no subscription sends anything to %s", quote(s.Name)), "")
		}
		if len(s.personal()) > 0 && !c.Events.IncludePersonal {
			k.add(fmt.Sprintf("%s.%s.personal", path, s.Kind()), "has no effect", "events.include_personal is false")
		}
		if s.Email != nil && strings.HasPrefix(s.Email.SMTP, "smtp+plain:") {
			k.add(path+".email.smtp", "mails travel in clear", "")
		}
		if w := s.Webhook; w != nil && len(w.Secrets) == 0 && w.Preset == PresetNone && w.Template == "" {
			k.add(path+".webhook", "deliveries are not signed", "add secrets")
		}
	}
	_ = k.errs.orNil() // sorts
	return k.errs
}
