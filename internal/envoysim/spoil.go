package envoysim

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// cutsHold reports whether a fault ends a held read in its middle.
func (c *call) cutsHold() bool {
	if c.fault == nil || c.fault.Delay <= 0 || c.tool != toolStatus {
		return false
	}
	wait, held := c.num("wait_seconds")
	switch c.fault.Kind {
	case FaultReset, FaultHTML, FaultNoContent, FaultError:
		return held && wait > 0
	default:
		return false
	}
}

// breakBefore does what the first group of faults does. It reports whether the tool is to run.
func (s *Sim) breakBefore(w http.ResponseWriter, r *http.Request, c *call) bool {
	f := c.fault
	if !s.pause(r.Context(), f.Delay) {
		return false
	}
	switch f.Kind {
	case FaultError:
		wait := f.Wait
		if wait == 0 {
			wait = -1
			if f.Code == RateLimited || (f.Code == Unavailable && f.Retryable) {
				wait = 1e9
			}
		}
		s.send(w, c, s.refuse(c.tool, f.Code, f.Retryable || f.Code == RateLimited, wait))
		return false
	case FaultReset:
		reset(w)
		return false
	case FaultHTML:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(or(f.Status, http.StatusBadGateway))
		w.Write([]byte("<html><head><title>Bad gateway</title></head><body>upstream</body></html>\n")) //nolint:errcheck // as in writeReply
		return false
	case FaultNoContent:
		w.WriteHeader(or(f.Status, http.StatusNoContent))
		return false
	default:
		return true
	}
}

// breakAfter does what the second group of faults does. It reports whether it answered.
func (s *Sim) breakAfter(w http.ResponseWriter, c *call, r *reply) bool {
	f, body := c.fault, r.encode()
	switch f.Kind {
	case FaultCut:
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(r.status())
		w.Write(body[:len(body)/2])           //nolint:errcheck // as in writeReply
		http.NewResponseController(w).Flush() //nolint:errcheck // best effort: the end comes all the same
		reset(w)
		return true
	case FaultForeign:
		s.mu.Lock()
		other := s.otherLocked(r)
		s.mu.Unlock()
		body = edit(body, func(m map[string]any) { swapPurchase(m, other) })
	case FaultLowerRevision:
		body = edit(body, func(m map[string]any) { lower(m, or(f.By, 1)) })
	case FaultUnknownWord:
		word := f.Word
		if word == "" {
			word = "hibernating"
		}
		body = edit(body, func(m map[string]any) { setAt(m, orField(f.Field, "purchase.state"), word, false) })
	case FaultMissingField:
		body = edit(body, func(m map[string]any) { setAt(m, orField(f.Field, "purchase.revision"), nil, true) })
	case FaultHuge:
		body = edit(body, func(m map[string]any) { m["padding"] = strings.Repeat("x", or(f.Size, 10<<20)) })
	case FaultRewrite:
		if f.Rewrite != nil {
			body = edit(body, f.Rewrite)
		}
	default:
		return false
	}
	s.countError(c, r)
	writeReply(w, r.status(), r, body)
	return true
}

// reset ends the connection as rudely as the transport allows.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2: net/http resets the stream and says nothing
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0) //nolint:errcheck // without it the end is only politer
	}
	conn.Close()
}

// edit decodes a reply, changes it and encodes it again, with all numbers as they were.
func edit(body []byte, fn func(map[string]any)) []byte {
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		return body // our own replies always decode
	}
	fn(m)
	out, err := json.Marshal(m)
	if err != nil {
		return body
	}
	return out
}

// otherLocked is the snapshot of some purchase that the reply is not about.
func (s *Sim) otherLocked(r *reply) *wirePurchase {
	own := ""
	if r.Purchase != nil {
		own = r.Purchase.PurchaseID
	}
	if d, ok := r.Data.(accountData); ok && d.Account.Active != nil && *d.Account.Active != nil {
		own = (*d.Account.Active).PurchaseID
	}
	for i := len(s.order) - 1; i >= 0 && i >= len(s.order)-2; i-- {
		if p := s.order[i]; p.now.ID != own {
			return p.now.wire()
		}
	}
	stranger := &Purchase{
		ID: "pur_" + s.mint.hex32(), Key: s.mint.key(), State: Processing, Revision: 7, StatusText: "Somebody else's purchase.",
		MerchantName: "Elsewhere", MerchantURL: "https://elsewhere.example.test", Money: Money{Status: NotStarted},
		Created: s.now(), Updated: s.now(),
	}
	return stranger.wire()
}

func swapPurchase(m map[string]any, other *wirePurchase) {
	if account, ok := dig(m, "data.account").(map[string]any); ok {
		account["active_purchase"] = other
		return
	}
	m["purchase"] = other
}

func lower(m map[string]any, by int) {
	for _, at := range []string{"purchase", "data.account.active_purchase"} {
		p, ok := dig(m, at).(map[string]any)
		if !ok {
			continue
		}
		n, _ := strconv.Atoi(string(p["revision"].(json.Number)))
		p["revision"] = max(0, n-by)
	}
}

func dig(m map[string]any, path string) any {
	var at any = m
	for name := range strings.SplitSeq(path, ".") {
		obj, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = obj[name]
	}
	return at
}

func setAt(m map[string]any, path string, value any, remove bool) {
	parent, name := any(m), path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent, name = dig(m, path[:i]), path[i+1:]
	}
	obj, ok := parent.(map[string]any)
	if !ok {
		return
	}
	if remove {
		delete(obj, name)
		return
	}
	obj[name] = value
}

func or(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

func orField(name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return name
}
