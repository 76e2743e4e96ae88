package slack_test

import (
	"strings"
	"testing"

	"github.com/heraldbridge/herald/internal/events"
	"github.com/heraldbridge/herald/internal/sinks"
	"github.com/heraldbridge/herald/internal/sinks/sinkfakes"
	"github.com/heraldbridge/herald/internal/sinks/sinkstest"
)

func TestLivingMessage(t *testing.T) {
	f := newSlack(t)
	s := newSink(t, botConfig(f))
	n := sinkstest.Notification(sinkstest.Confirming())
	n.Kind, n.Urgent = sinks.KindOpen, true
	thread := send(t, s, n).Thread
	root := last(f)
	if thread["ts"] != root.TS || thread["channel"] != channel || root.Method != "postMessage" || root.ThreadTS != "" {
		t.Fatalf("the first message is %+v, its receipt %v", root, thread)
	}
	for _, step := range []struct {
		kind      sinks.Kind
		urgent    bool
		broadcast bool
	}{{sinks.KindEvent, false, false}, {sinks.KindUpdate, false, false}, {sinks.KindUpdate, true, true}, {sinks.KindRemind, false, true}, {sinks.KindResolve, false, true}} {
		n.Kind, n.Urgent, n.Thread = step.kind, step.urgent, thread
		before := len(f.Posts())
		thread = send(t, s, n).Thread
		posts := f.Posts()[before:]
		if len(posts) != 2 || posts[0].Method != "update" || posts[0].TS != root.TS || posts[1].Method != "postMessage" {
			t.Fatalf("%s made %+v", step.kind, posts)
		}
		if posts[1].ThreadTS != root.TS || posts[1].Broadcast != step.broadcast {
			t.Errorf("%s: thread %s, shown in the channel %v, want %v", step.kind, posts[1].ThreadTS, posts[1].Broadcast, step.broadcast)
		}
		mentions := strings.Contains(shown(posts[1]), "<!subteam^")
		if mentions != step.urgent || strings.Contains(shown(posts[0]), "<!subteam^") {
			t.Errorf("%s: mention %v, want %v, and never in the edit", step.kind, mentions, step.urgent)
		}
	}
}

func TestLostThreadBeginsANewMessage(t *testing.T) {
	f := newSlack(t)
	s := newSink(t, botConfig(f))
	n := sinkstest.Notification(sinkstest.Confirming())
	n.Thread = send(t, s, n).Thread
	f.Forget()
	first := n.Thread["ts"]
	again := send(t, s, n).Thread
	if p := last(f); p.Method != "postMessage" || p.ThreadTS != "" || again["ts"] == first {
		t.Errorf("the message is %+v, receipt %v", p, again)
	}
	for name, thread := range map[string]map[string]string{
		"other channel": {"ts": again["ts"], "channel": channel, "for": "C000"}, "emptied": {}, "half": {"ts": "1"},
	} {
		n.Thread = thread
		if got := send(t, s, n).Thread; got["ts"] == again["ts"] || last(f).ThreadTS != "" {
			t.Errorf("%s: no new message: %+v", name, last(f))
		}
	}
}

func TestNoticesArePostsOfTheirOwn(t *testing.T) {
	f := newSlack(t)
	s := newSink(t, botConfig(f))
	n := sinkstest.Notification(events.NewNotice("host-a", events.NoticeParked, now(), events.Notice{Connection: "host-a", Text: "x"}))
	n.Thread = map[string]string{"ts": "1", "channel": channel, "for": channel}
	if r := send(t, s, n); r.Thread != nil || last(f).Method != "postMessage" || last(f).ThreadTS != "" {
		t.Errorf("the notice became %+v, its receipt %v", last(f), r)
	}
}

// A try that fails between the update and the post says nothing twice when it is
// made again.
func TestRetryAfterTheUpdateRepeatsOnlyTheUpdate(t *testing.T) {
	f := newSlack(t)
	s := newSink(t, botConfig(f))
	n := sinkstest.Notification(sinkstest.Confirming())
	n.Thread = send(t, s, n).Thread
	f.Script(sinkfakes.Answer{Status: 200, Body: `{"ok":true,"channel":"` + channel + `","ts":"` + n.Thread["ts"] + `"}`}, sinkfakes.Answer{Status: 503})
	if got := failure(t, s, n); got.Verdict != sinks.Temporary {
		t.Fatalf("failure is %v", got)
	}
	send(t, s, n)
	replies := 0
	for _, p := range f.Posts() {
		if p.ThreadTS != "" {
			replies++
		}
	}
	if replies != 1 {
		t.Errorf("%d lines in the thread, want 1", replies)
	}
}

// Whatever is remembered of a thread, a new message begins where Slack refuses it.
func TestWrongThreadStateNeverFails(t *testing.T) {
	for _, refusal := range []string{"message_not_found", "cant_update_message", "channel_not_found", "edit_window_closed", "invalid_ts", "a_word_of_tomorrow"} {
		t.Run(refusal, func(t *testing.T) {
			f := newSlack(t)
			s := newSink(t, botConfig(f))
			n := sinkstest.Notification(sinkstest.Confirming())
			n.Thread = map[string]string{"ts": "no such", "channel": "C000", "for": channel}
			f.Script(word(refusal))
			if got := send(t, s, n).Thread; got["ts"] != last(f).TS || got["channel"] != channel || last(f).ThreadTS != "" {
				t.Errorf("the message is %+v, its receipt %v", last(f), got)
			}
		})
	}
	f := newSlack(t)
	s := newSink(t, botConfig(f))
	n := sinkstest.Notification(sinkstest.Confirming())
	n.Thread = send(t, s, n).Thread
	for _, refusal := range []string{"ratelimited", "invalid_auth", "internal_error"} { // nothing is lost: these are told
		f.Script(word(refusal))
		if got := failure(t, s, n); !strings.Contains(got.Error(), refusal) {
			t.Errorf("%s gave %v", refusal, got)
		}
	}
	if len(f.Posts()) != 1 {
		t.Errorf("%d posts, want 1", len(f.Posts()))
	}
}

// What an answer gives as ids is kept for each purchase, so only what can be one is.
func TestIDsOfAnswersAreBounded(t *testing.T) {
	f := newSlack(t)
	s := newSink(t, botConfig(f))
	n := sinkstest.Notification(sinkstest.Confirming())
	long := strings.Repeat("1", 100_000)
	for _, ids := range [][2]string{{"C1", long}, {long, "1.2"}, {"C1", "1.2\u0000" + token}, {"C1", ""}} {
		f.Script(sinkfakes.Answer{Status: 200, Body: `{"ok":true,"channel":"` + ids[0] + `","ts":"` + strings.ReplaceAll(ids[1], "\x00", "\\u0000") + `"}`})
		if r := send(t, s, n); r.Thread != nil || len(r.Detail) > 100 || strings.Contains(r.Detail, token) {
			t.Errorf("%.20s %.20s: the receipt is %.200v", ids[0], ids[1], r)
		}
	}
	n.Thread = send(t, s, n).Thread
	answer := sinkfakes.Answer{Status: 200, Body: `{"ok":true,"channel":"C1","ts":"` + long + `"}`}
	f.Script(answer, answer)
	if r := send(t, s, n); r.Thread["ts"] != n.Thread["ts"] || len(r.Detail) > 100 {
		t.Errorf("the receipt is %.200v", r)
	}
}

// A message that Slack says it took is not posted again because the rest of the
// answer makes no sense; it only cannot be updated.
func TestOKWithNonsenseIsNotSaidTwice(t *testing.T) {
	for _, body := range []string{
		`{"ok":true}`, `{"ok":true,"channel":7,"ts":{}}`, `{"ok":true,"channel":["C1"],"ts":1790000000.1,"message":"x","response_metadata":[]}`,
		`{"ok":true,"error":"channel_not_found"}`, `{"ok":true,"ts":null,"channel":null,"warning":"x"}`,
	} {
		f := newSlack(t)
		s := newSink(t, botConfig(f))
		n := sinkstest.Notification(sinkstest.Confirming())
		answer := sinkfakes.Answer{Status: 200, Body: body}
		f.Script(answer)
		if r := send(t, s, n); r.Thread != nil || len(f.Received()) != 1 {
			t.Errorf("%s: %d tries, the receipt is %v", body, len(f.Received()), r)
		}
		n.Thread = send(t, s, n).Thread
		before := len(f.Received())
		f.Script(answer, answer)
		if r := send(t, s, n); r.Thread["ts"] != n.Thread["ts"] || len(f.Received()) != before+2 {
			t.Errorf("%s: %d tries of an update and a line, the receipt is %v", body, len(f.Received())-before, r)
		}
	}
}
