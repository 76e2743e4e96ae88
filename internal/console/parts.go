package console

import (
	"errors"
	"net/http"
	"sort"

	"github.com/heraldbridge/herald/internal/events"
)

func (c *console) listSinks(w http.ResponseWriter, r *http.Request) error {
	q, err := parameters(r, "limit", "after")
	if err != nil {
		return err
	}
	list, err := c.Parts.Sinks(r.Context())
	if err != nil {
		return err
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	page, err := cut(list, func(s Sink) string { return s.Name }, q)
	if err != nil {
		return err
	}
	return give(w, page)
}

// listConnections puts those in trouble first.
func (c *console) listConnections(w http.ResponseWriter, r *http.Request) error {
	q, err := parameters(r, "limit", "after")
	if err != nil {
		return err
	}
	list, err := c.Parts.Connections(r.Context())
	if err != nil {
		return err
	}
	key := func(x Connection) string {
		if x.Parked != "" || x.Blind || x.Owner == "" {
			return "0" + x.Name
		}
		return "1" + x.Name
	}
	sort.Slice(list, func(i, j int) bool { return key(list[i]) < key(list[j]) })
	page, err := cut(list, key, q)
	if err != nil {
		return err
	}
	return give(w, page)
}

// testSink has the owner of a sink send a marked test notification.
func (c *console) testSink(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if !events.ValidConnection(name) {
		return wrong("sink", "is no name of a sink")
	}
	res := c.wish(r.Context(), name, Wish{Kind: WishTest})
	if res.Problem == ErrNoOwner.Error() {
		if err := c.knownSink(r, name); err != nil {
			return err
		}
		return &Refusal{Status: http.StatusServiceUnavailable, Problem: ErrNoOwner.Error()}
	}
	return give(w, res)
}

// knownSink tells a name that nobody knows from a sink that nobody owns.
func (c *console) knownSink(r *http.Request, name string) error {
	if c.Parts == nil {
		return nil
	}
	list, err := c.Parts.Sinks(r.Context())
	if err != nil {
		return errors.Join(ErrNoOwner, err)
	}
	for _, s := range list {
		if s.Name == name {
			return nil
		}
	}
	return absent("sink", "no sink has this name")
}
