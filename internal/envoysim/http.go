package envoysim

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxBody is the largest request body, in bytes.
const maxBody = 64 << 10

// Handler serves POST {base}/tools/{tool}.
func (s *Sim) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+s.opts.Base+"/tools/{tool}", s.serve)
	return mux
}

// serve takes a request through the gates in the order of what they cost: token, limit, faults, size, shape, tool.
func (s *Sim) serve(w http.ResponseWriter, r *http.Request) {
	c := &call{tool: r.PathValue("tool")}
	if refused := s.admit(c, r); refused != nil {
		if c.tok != nil {
			s.tell(c, true)
		}
		s.send(w, c, refused)
		return
	}
	do := s.toolFor(c.tool)
	if do == nil {
		s.send(w, c, s.refuse(c.tool, NotFound, false, -1))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		s.sendStatus(w, c, s.invalid(c, wireField{Path: "", Problem: "is larger than 64 KB"}), http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		return // the caller went away
	}
	c.body = body
	s.tell(c, false)
	if refused := s.prove(c, r); refused != nil {
		s.send(w, c, refused)
		return
	}
	input, wrong := s.inputs[c.tool].parse(c.tool, body)
	if len(wrong) > 0 {
		s.send(w, c, s.invalid(c, wrong...))
		return
	}
	c.input = input
	c.fault = s.pickFault(c)
	ctx := r.Context()
	switch {
	case c.cutsHold():
		// A hold that is answered before the fault strikes is none the worse for it.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.fault.Delay)
		defer cancel()
	case c.fault != nil && !s.breakBefore(w, r, c):
		return
	}
	reply := do(ctx, c)
	if reply == nil && c.cutsHold() && r.Context().Err() == nil {
		c.fault.Delay = 0
		s.breakBefore(w, r, c)
		return
	}
	if reply == nil {
		reset(w) // the caller went away, or the server is stopping: an empty 200 would be a lie
		return
	}
	if c.fault != nil && s.breakAfter(w, c, reply) {
		return
	}
	s.send(w, c, reply)
}

type toolFunc func(ctx context.Context, c *call) *reply

func (s *Sim) toolFor(name string) toolFunc {
	switch name {
	case toolAccount:
		return s.getAccount
	case toolTransactions:
		return s.listTransactions
	case toolPurchases:
		return s.listPurchases
	case toolStart:
		return s.startPurchase
	case toolStatus:
		return s.getStatus
	case toolAnswer, toolSubmit:
		return s.answerQuestion
	case toolReport:
		return s.reportResult
	case toolStep:
		return s.reportStep
	case toolCancel:
		return s.cancelPurchase
	case toolGiftMerchants, toolMerchants:
		return s.listMerchants
	case toolSearchProducts:
		return s.searchProducts
	default:
		return nil
	}
}

// admit authenticates the caller and counts the request against the token's minute.
func (s *Sim) admit(c *call, r *http.Request) *reply {
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tokens[strings.TrimSpace(value)]
	if !ok || t.revoked || !strings.EqualFold(scheme, "Bearer") {
		if ok {
			t.counts.Total++
			t.recent.add(s.clock.Now())
		}
		return s.strangerLocked(c, r)
	}
	c.tok = t
	now := s.clock.Now()
	t.counts.Total++
	t.counts.ByTool[c.tool]++
	t.recent.add(now)
	if wait, ok := t.admitted.admit(now, s.opts.RequestsPerMinute); !ok {
		return s.refuseLocked(c.tool, RateLimited, true, wait)
	}
	return nil
}

// strangerLocked refuses a request without a valid token, at first with 401, then by address.
func (s *Sim) strangerLocked(c *call, r *http.Request) *reply {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if s.badAuth[host] == nil {
		s.badAuth[host] = &window{}
	}
	if wait, ok := s.badAuth[host].admit(s.clock.Now(), s.opts.AuthFailuresPerMinute); !ok {
		return s.refuseLocked(c.tool, RateLimited, true, wait)
	}
	return s.refuseLocked(c.tool, Unauthenticated, false, -1)
}

// prove asks a key-bound token for its proof over the exact request.
func (s *Sim) prove(c *call, r *http.Request) *reply {
	s.mu.Lock()
	check := c.tok.proof
	s.mu.Unlock()
	if check == nil {
		return nil
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	if check(r.Method, scheme+r.Host+r.URL.RequestURI(), c.body, r.Header.Get("Envoy-Installation-Proof")) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.strangerLocked(c, r)
}

func (s *Sim) invalid(c *call, fields ...wireField) *reply {
	r := s.refuse(c.tool, InvalidInput, false, -1)
	r.Error.Fields = fields
	return r
}

func (s *Sim) send(w http.ResponseWriter, c *call, r *reply) { s.sendStatus(w, c, r, r.status()) }

func (s *Sim) sendStatus(w http.ResponseWriter, c *call, r *reply, status int) {
	s.countError(c, r)
	writeReply(w, status, r, r.encode())
}

func (s *Sim) countError(c *call, r *reply) {
	if r.Error == nil || c.tok == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.tok.counts.Errors[r.Error.Code]++
}

func writeReply(w http.ResponseWriter, status int, r *reply, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	if r.Error != nil && r.Error.RetryAfterSeconds != nil {
		h.Set("Retry-After", strconv.Itoa(*r.Error.RetryAfterSeconds))
	}
	w.WriteHeader(status)
	w.Write(body) //nolint:errcheck // a caller that went away cannot be told
}

// pause waits in the Clock's time. It reports whether the time passed before the context ended.
func (s *Sim) pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer, stop := s.clock.NewTimer(d)
	defer stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer:
		return true
	}
}
