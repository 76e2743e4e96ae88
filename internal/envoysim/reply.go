package envoysim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// reply is the envelope of every tool.
type reply struct {
	OK         bool          `json:"ok"`
	Contract   string        `json:"contract"`
	Tool       string        `json:"tool"`
	RequestID  string        `json:"request_id"`
	TraceID    string        `json:"trace_id"`
	ServerTime stamp         `json:"server_time"`
	Replayed   bool          `json:"replayed"`
	Purchase   *wirePurchase `json:"purchase"`
	Data       any           `json:"data"`
	Next       wireNext      `json:"next"`
	UserAction *wireAction   `json:"user_action"`
	FollowUps  []wireLater   `json:"follow_ups"`
	Error      *wireError    `json:"error"`
}

type wireNext struct {
	Action       string `json:"action"`
	Tool         word   `json:"tool"`
	Args         any    `json:"args"`
	Instruction  string `json:"instruction"`
	AfterSeconds *int   `json:"after_seconds"`
	By           stamp  `json:"by"`
}

type wireAction struct {
	Task    string `json:"task"`
	URL     word   `json:"url"`
	By      stamp  `json:"by"`
	Message string `json:"message"`
}

type wireLater struct {
	Tool string         `json:"tool"`
	Args map[string]any `json:"args"`
	Why  string         `json:"why"`
}

type wireError struct {
	Code              ErrorCode   `json:"code"`
	Message           string      `json:"message"`
	Fields            []wireField `json:"fields"`
	ReasonCode        word        `json:"reason_code"`
	Retryable         bool        `json:"retryable"`
	RetryAfterSeconds *int        `json:"retry_after_seconds"`
}

type wireField struct {
	Path     string `json:"path"`
	Problem  string `json:"problem"`
	Expected word   `json:"expected"`
}

// call is one request on its way through.
type call struct {
	tool  string
	tok   *token
	body  []byte
	input map[string]any
	fault *Fault // what to do to it; nil: nothing
}

// blankLocked is a reply with all that every reply has.
func (s *Sim) blankLocked(tool string) *reply {
	s.requests++
	n := mix(s.opts.Seed + s.requests<<20)
	return &reply{
		OK: true, Contract: Contract, Tool: tool, RequestID: fmt.Sprintf("req_%016x", n),
		TraceID: fmt.Sprintf("%016x%016x", n, mix(n)), ServerTime: stamp(s.now()),
		Next: wireNext{
			Action: "continue", Instruction: "Use the data as the user asked.",
		},
		FollowUps: []wireLater{},
	}
}

// refuse makes an error reply. after below 0 means that no wait is named.
func (s *Sim) refuse(tool string, code ErrorCode, retryable bool, after time.Duration) *reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refuseLocked(tool, code, retryable, after)
}

func (s *Sim) refuseLocked(tool string, code ErrorCode, retryable bool, after time.Duration) *reply {
	r := s.blankLocked(tool)
	r.OK = false
	r.Error = &wireError{Code: code, Message: errorMessage(code), Fields: []wireField{}, Retryable: retryable}
	r.Next = errorNext(tool, code, retryable)
	if after >= 0 {
		// Whole seconds, rounded up: a caller that waits as told must not come too early.
		secs := int((after + time.Second - 1) / time.Second)
		r.Error.RetryAfterSeconds, r.Next.AfterSeconds = &secs, &secs
	}
	return r
}

func errorNext(tool string, code ErrorCode, retryable bool) wireNext {
	n := wireNext{Action: "stop", Instruction: errorInstruction(code)}
	switch code {
	case InvalidInput:
		n.Action, n.Tool = "fix_input", word(tool)
	case Unauthenticated:
		n.Action = "reconnect"
	case ClientUpdateRequired:
		n.Action = "update_client"
	case RateLimited, Unavailable:
		if retryable {
			n.Action, n.Tool = "retry", word(tool)
		}
	default:
	}
	return n
}

func errorMessage(code ErrorCode) string {
	switch code {
	case InvalidInput:
		return "Some of the input was not accepted."
	case Unauthenticated:
		return "Envoy has to be connected again."
	case NotAllowed:
		return "This connection may not do that."
	case ServiceNotEnabled:
		return "This Envoy service is not enabled."
	case NotFound:
		return "No purchase matches that reference."
	case IdempotencyConflict:
		return "That key was used with other input."
	case ActivePurchaseExists:
		return "Another purchase is in progress."
	case StateConflict:
		return "That does not fit the purchase's state."
	case NoRail:
		return "Envoy cannot pay this purchase."
	case RateLimited:
		return "Too many requests for the moment."
	case Unavailable:
		return "Envoy cannot be reached for the moment."
	case ClientUpdateRequired:
		return "This client is too old."
	default:
		return "Envoy refused the request."
	}
}

func errorInstruction(code ErrorCode) string {
	switch code {
	case InvalidInput:
		return "Correct each field named in error.fields and make the same call once more."
	case Unauthenticated:
		return "Have the user connect Envoy again, then make this call again."
	case RateLimited, Unavailable:
		return "Wait as next.after_seconds says, then send the same call again. Do not pay any other way."
	case ActivePurchaseExists:
		return "Show the user the message and leave this attempt."
	case ClientUpdateRequired:
		return "Tell the user to update this client."
	default:
		return "Tell the user; do not try this again."
	}
}

// status is the HTTP status of a reply.
func (r *reply) status() int {
	if r.Error != nil {
		return r.Error.Code.HTTPStatus()
	}
	return http.StatusOK
}

// encode writes the reply as it goes over the wire: plain UTF-8, nothing escaped that need not be.
func (r *reply) encode() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil // types without cycles, channels or functions always encode
	}
	return b.Bytes()
}
