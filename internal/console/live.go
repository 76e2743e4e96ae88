package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// NoticeView is a notice on the live stream.
type NoticeView struct {
	ID         string            `json:"id"`
	Connection string            `json:"connection"`
	Kind       events.NoticeKind `json:"kind"`
	PurchaseID string            `json:"purchase_id,omitempty"`
	Sink       string            `json:"sink,omitempty"`
	Text       string            `json:"text"`
	At         time.Time         `json:"at"`
}

// signOfLife is how often a quiet stream says that it is there.
const signOfLife = 15 * time.Second

// live streams changes as server-sent events: purchase with a Summary, notice
// with a NoticeView. The id is the stream sequence. Parameter: since, as for
// tails.
func (c *console) live(w http.ResponseWriter, r *http.Request) error {
	q, err := parameters(r, "since")
	if err != nil {
		return err
	}
	since, err := moment(q.Get("since"), time.Now())
	if err != nil {
		return wrong("since", err.Error())
	}
	done, err := c.openStream(w, "text/event-stream")
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(r.Context())
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	news := make(chan events.Envelope)
	following.Go(func() {
		defer close(news)
		for env, err := range c.Feed.Tail(ctx, since) {
			if err != nil {
				return
			}
			select {
			case news <- env:
			case <-ctx.Done():
				return
			}
		}
	})
	write(ctx, w, news)
	return nil
}

// write passes changes on until there are no more, or nobody reads them.
func write(ctx context.Context, w http.ResponseWriter, news <-chan events.Envelope) {
	tick := time.NewTicker(signOfLife)
	defer tick.Stop()
	out := http.NewResponseController(w)
	_, err := io.WriteString(w, ": following\n\n")
	for err == nil && out.Flush() == nil {
		select {
		case env, ok := <-news:
			if !ok {
				return
			}
			err = change(w, env)
		case <-tick.C:
			_, err = io.WriteString(w, ": still here\n\n")
		case <-ctx.Done():
			return
		}
	}
}

// change writes one server-sent event.
func change(w io.Writer, env events.Envelope) error {
	var name string
	var data any
	switch e := env.Event; {
	case e.Purchase != nil:
		name, data = "purchase", summarize(env, time.Now())
	case e.Notice != nil:
		n := e.Notice
		name, data = "notice", NoticeView{ID: e.ID, Connection: n.Connection, Kind: n.Kind, PurchaseID: n.PurchaseID, Sink: n.Sink, Text: n.Text, At: env.Stored}
	default: // what does not decode has neither
		return nil
	}
	b, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode change: %w", err)
	}
	_, err = fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", env.Sequence, name, b)
	return err
}
