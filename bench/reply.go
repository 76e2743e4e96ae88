package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// replyBytes is about how long a status reply is; the contract allows 600 characters of instruction.
const replyBytes = 2100

// slot is a place of a reply that differs from reply to reply.
type slot string

const (
	slotNone     slot = ""
	slotID       slot = "<id>"
	slotRevision slot = "770077007700"
	slotUpdated  slot = "<updated>"
	slotNow      slot = "<now>"
	slotBy       slot = "<by>"
)

// piece is a literal part of a reply and the slot that follows it.
type piece struct {
	text string
	slot slot
}

// statusReply is a reply of get_purchase_status about an order that Envoy itself
// places at a shop: the case that the watcher holds. It is written once and
// filled in many times, so that the stand-in costs little.
type statusReply struct{ pieces []piece }

func newStatusReply() (*statusReply, error) {
	doc := statusDocument()
	short, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write reply: %w", err)
	}
	if pad := replyBytes - len(short); pad > 0 {
		// What Envoy tells the agent to do is the longest text of a reply.
		text := strings.Repeat("Read the purchase again until it changes. ", pad/42+1)
		doc["next"].(map[string]any)["instruction"] = text[:pad]
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write reply: %w", err)
	}
	return cut(unescaped(string(raw))), nil
}

// unescaped takes back what encoding/json does to < and > in the names of slots.
func unescaped(s string) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(s)
}

func cut(text string) *statusReply {
	find := regexp.MustCompile(strings.Join([]string{
		string(slotID), string(slotRevision), string(slotUpdated), string(slotNow), string(slotBy),
	}, "|"))
	r := &statusReply{}
	at := 0
	for _, span := range find.FindAllStringIndex(text, -1) {
		r.pieces = append(r.pieces, piece{text[at:span[0]], slot(text[span[0]:span[1]])})
		at = span[1]
	}
	r.pieces = append(r.pieces, piece{text[at:], slotNone})
	return r
}

// fill appends the reply about a purchase to b.
func (r *statusReply) fill(b []byte, id string, revision int64, updated, now time.Time) []byte {
	for _, p := range r.pieces {
		b = append(b, p.text...)
		switch p.slot {
		case slotID:
			b = append(b, id...)
		case slotRevision:
			b = strconv.AppendInt(b, revision, 10)
		case slotUpdated:
			b = updated.UTC().AppendFormat(b, time.RFC3339Nano)
		case slotNow:
			b = now.UTC().AppendFormat(b, time.RFC3339Nano)
		case slotBy:
			b = now.UTC().Add(time.Hour).AppendFormat(b, time.RFC3339Nano)
		case slotNone:
		}
	}
	return b
}

// Fixed words of the stand-in.
const (
	agentID   = "origin:https://host.example.test"
	agentName = "Synthetic Host"
)

func statusDocument() map[string]any {
	doc := envelope("get_purchase_status")
	revision := json.Number(slotRevision)
	doc["purchase"] = map[string]any{
		"purchase_id": slotID, "service": "purchase", "idempotency_key": "synthetic-intent-0001",
		"revision": revision, "terminal": false, "state": "processing", "user_task": nil, "reason_code": nil,
		"status_text": "Envoy is placing the order.", "rail": "operated_checkout",
		"rail_reason": "RAIL_AMOUNT_ABOVE_OTU_LIMIT", "checkout_by": "envoy",
		"merchant": map[string]any{"name": "Example Store", "url": "https://shop.example.test/headphones"},
		"amount":   map[string]any{"minor": 249900, "currency": "INR", "display": "INR 2,499.00"},
		"details":  map[string]any{"complete": true, "missing": []string{}}, "description": "Headphones",
		"question": nil, "follow_up": nil,
		"approval":      map[string]any{"state": "approved", "method": "passkey", "decide_by": nil, "approval_url": nil},
		"payment_ready": map[string]any{"available": false, "kind": nil, "expires_at": nil},
		"money":         map[string]any{"status": "not_started", "paid": nil, "merchant_order_ref": nil},
		"receipt":       nil, "chain": map[string]any{"supersedes": nil, "superseded_by": nil},
		"agent":      map[string]any{"agent_id": agentID, "display_name": agentName, "verification": "origin"},
		"created_at": "2026-09-29T12:00:00Z", "updated_at": slotUpdated,
	}
	doc["next"] = map[string]any{
		"action": "call_tool", "tool": "get_purchase_status",
		"args":        map[string]any{"purchase": slotID, "after_revision": revision, "wait_seconds": 45},
		"instruction": "", "after_seconds": 0, "by": slotBy,
	}
	return doc
}

// envelope is what every reply has.
func envelope(tool string) map[string]any {
	return map[string]any{
		"ok": true, "contract": "envoy@2026-10", "tool": tool, "request_id": "req_synthetic",
		"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "server_time": slotNow, "replayed": false,
		"purchase": nil, "data": nil, "user_action": nil, "follow_ups": []any{}, "error": nil,
		"next": map[string]any{
			"action": "none", "tool": nil, "args": nil, "instruction": "", "after_seconds": nil, "by": nil,
		},
	}
}

// newAccountReply is a reply of get_account that shows nothing open, so that a
// watcher takes its purchases from what was registered.
func newAccountReply() (*statusReply, error) {
	doc := envelope("get_account")
	doc["data"] = map[string]any{"account": map[string]any{
		"unavailable": []string{}, "active_purchase": nil,
		"held_purchases": map[string]any{
			"available": true, "reason": nil, "items": []any{}, "total": nil, "truncated": false,
		},
		"agent": map[string]any{"agent_id": agentID, "display_name": agentName, "verification": "origin"},
	}}
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write reply: %w", err)
	}
	return cut(unescaped(string(raw))), nil
}

// newListReply is an empty reply of list_purchases.
func newListReply() (*statusReply, error) {
	doc := envelope("list_purchases")
	doc["data"] = map[string]any{"purchases": []any{}, "truncated": false}
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write reply: %w", err)
	}
	return cut(unescaped(string(raw))), nil
}

// purchaseID is the id of the i-th purchase of a bench.
func purchaseID(i int) string { return fmt.Sprintf("pur_%032x", i) }
