package slack_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
)

// Whatever a merchant calls itself, Slack finds nothing in it to follow, to show
// otherwise or to notify: in no text of a message, with either way to post.
func TestNothingOfOthersIsFollowed(t *testing.T) {
	ours := regexp.MustCompile(`<!date\^\d+\^\{date_short_pretty\}, \{time\}( \(\{ago\}\))?\|[^<>|]*>|<!subteam\^S0123456789>|<!here>`)
	live := regexp.MustCompile("[<>`\r]|://|(?m)^&gt;|[@#][\\pL\\pN]|:[a-zA-Z+-][\\w+-]*:|(^|[^\\pL\\pN])[_~][\\pL\\pN]")
	for name, config := range both() {
		for what, text := range sinkstest.Hostile() {
			t.Run(name+"/"+what, func(t *testing.T) {
				f := newSlack(t)
				s := newSink(t, config(f))
				n := sinkstest.Notification(sinkstest.HostilePurchase(text))
				n.Urgent = true
				n.Thread = send(t, s, n).Thread
				n.Kind = sinks.KindRemind
				send(t, s, n)
				n.Event, n.Thread = sinkstest.HostileNotice(text), nil
				send(t, s, n)
				for _, p := range f.Posts() {
					inspect(t, p, ours, live)
				}
			})
		}
	}
}

func inspect(t *testing.T, p sinkfakes.Post, ours, live *regexp.Regexp) {
	t.Helper()
	for _, text := range append([]sinkfakes.TextObject{{Text: p.Text}}, p.Texts...) {
		rest := ours.ReplaceAllString(text.Text, "")
		if found := live.FindString(rest); found != "" {
			t.Errorf("%s shows %q in %.300q", p.Method, found, rest)
		}
		if n := strings.Count(rest, "*"); n%2 != 0 {
			t.Errorf("%s has %d asterisks in %.300q", p.Method, n, rest)
		}
	}
}
