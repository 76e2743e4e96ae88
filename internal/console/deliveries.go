package console

import (
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/heraldbridge/herald/internal/events"
)

// Words of the records of deliveries.
const (
	outcomeSent       = "sent"
	outcomeRetried    = "retried"
	outcomeBuried     = "buried"
	outcomeSkipped    = "skipped"
	outcomeSuperseded = "superseded"
	outcomeWaiting    = "waiting"
)

// keptDeliveries bounds the records that one request sorts.
const keptDeliveries = 50_000

func failed(d events.Delivery) bool { return d.Outcome == outcomeRetried || d.Outcome == outcomeBuried }

func deliveryKey(d events.Delivery) string {
	return newestFirst(d.At) + d.Sink + "/" + d.EventID + fmt.Sprintf("/%06d/", d.Attempt) + d.Outcome
}

// listDeliveries gives records, newest first. Without since it goes back a day.
func (c *console) listDeliveries(w http.ResponseWriter, r *http.Request) error {
	q, err := parameters(r, "sink", "failed", "since", "purchase", "limit", "after")
	if err != nil {
		return err
	}
	f := DeliveryFilter{Sink: q.Get("sink"), PurchaseID: q.Get("purchase")}
	if f.Sink != "" && !events.ValidConnection(f.Sink) {
		return wrong("sink", "is no name of a sink")
	}
	if f.PurchaseID != "" && !events.ValidPurchaseID(f.PurchaseID) {
		return wrong("purchase", "is no purchase id: pur_ and 32 hexadecimal digits")
	}
	onlyFailed, given, err := truth(q, "failed")
	if err != nil {
		return err
	}
	since := q.Get("since")
	if since == "" {
		since = "24h"
	}
	if f.Since, err = moment(since, time.Now()); err != nil {
		return wrong("since", err.Error())
	}
	var list []events.Delivery
	for d, err := range c.Audit.Deliveries(r.Context(), f) {
		if err != nil {
			return fmt.Errorf("read deliveries: %w", err)
		}
		if given && failed(d) != onlyFailed {
			continue
		}
		if list = append(list, d); len(list) >= 2*keptDeliveries {
			list = slices.Clone(list[len(list)-keptDeliveries:])
		}
	}
	sort.Slice(list, func(i, j int) bool { return strings.Compare(deliveryKey(list[i]), deliveryKey(list[j])) < 0 })
	page, err := cut(list, deliveryKey, q)
	if err != nil {
		return err
	}
	return give(w, page)
}
