package events

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// schemaID names the schema of version 1 of the events.
const schemaID = "urn:herald:events:v1"

// node is one JSON Schema of 2020-12, as far as events need it.
type node struct {
	Schema      string           `json:"$schema,omitempty"`
	ID          string           `json:"$id,omitempty"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Type        string           `json:"type,omitempty"`
	Const       string           `json:"const,omitempty"`
	Enum        []string         `json:"enum,omitempty"`
	Format      string           `json:"format,omitempty"`
	Pattern     string           `json:"pattern,omitempty"`
	Properties  map[string]*node `json:"properties,omitempty"`
	Required    []string         `json:"required,omitempty"`
	Items       *node            `json:"items,omitempty"`
	Ref         string           `json:"$ref,omitempty"`
	AnyOf       []*node          `json:"anyOf,omitempty"`
	OneOf       []*node          `json:"oneOf,omitempty"`
	Defs        map[string]*node `json:"$defs,omitempty"`
	Class       Class            `json:"x-herald-class,omitempty"`
}

// Schema is the JSON Schema (2020-12) of every event, made from the Go types.
// Members that it does not name may come with a later version; x-herald-class
// tells which fields are personal or for operators only.
func Schema() ([]byte, error) {
	g := generator{defs: map[string]*node{}}
	purchase, notice := g.object(reflect.TypeFor[Purchase](), ""), g.object(reflect.TypeFor[Notice](), "")
	if g.err != nil {
		return nil, fmt.Errorf("generate schema: %w", g.err)
	}
	g.defs["Purchase"], g.defs["Notice"] = purchase, notice
	g.defs["changed"] = envelope(TypeChanged, "#/$defs/Purchase", "A purchase has a new reading.")
	g.defs["overdue"] = envelope(TypeOverdue, "#/$defs/Purchase", "A deadline passed without a change of the purchase.")
	g.defs["notice"] = envelope(TypeNotice, "#/$defs/Notice", "Something about a connection or a sink itself.")
	root := &node{
		Schema: "https://json-schema.org/draft/2020-12/schema", ID: schemaID,
		Title:       "Herald events",
		Description: "CloudEvents 1.0 documents in structured mode. Readers pass over members that they do not know.",
		OneOf:       []*node{{Ref: "#/$defs/changed"}, {Ref: "#/$defs/overdue"}, {Ref: "#/$defs/notice"}},
		Defs:        g.defs,
	}
	return indented(root)
}

// indented writes a generated document as it is checked in.
func indented(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write schema: %w", err)
	}
	return append(b, '\n'), nil
}

// envelope is the document around data of one type of event.
func envelope(t Type, data, what string) *node {
	n := &node{
		Type: "object", Description: what,
		Properties: map[string]*node{
			"specversion":     {Const: specVersion},
			"id":              {Type: "string", Pattern: "^[A-Za-z0-9_-]{1,255}$", Description: "The same for every delivery of this event; it has no dot."},
			"source":          {Type: "string", Pattern: "^" + sourcePrefix + "[A-Za-z0-9_-]{1,64}$"},
			"type":            {Const: string(t)},
			"time":            {Type: "string", Format: "date-time"},
			"datacontenttype": {Const: contentType},
			"traceparent":     {Type: "string", Pattern: "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$", Description: "W3C trace context of the read, where it was traced."},
			"data":            {Ref: data},
		},
		Required: []string{"data", "datacontenttype", "id", "source", "specversion", "time", "type"},
	}
	if t != TypeNotice {
		n.Properties["subject"] = &node{Type: "string", Pattern: "^pur_[a-f0-9]{32}$", Description: "The purchase."}
		n.Required = append(n.Required, "subject")
		slices.Sort(n.Required)
	}
	return n
}

// generator turns Go types into schemas and gathers those that are named.
type generator struct {
	defs map[string]*node
	err  error
}

// object is the schema of a struct. path leads to it within data; members of
// data itself have their name as path.
func (g *generator) object(t reflect.Type, path string) *node {
	n := &node{Type: "object", Properties: map[string]*node{}}
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := strings.TrimPrefix(path+"."+name, ".")
		member := g.value(f.Type, at)
		optional := strings.Contains(opts, "omit")
		if f.Type.Kind() == reflect.Pointer && !optional {
			member = &node{AnyOf: []*node{member, {Type: "null"}}}
		}
		if !optional {
			n.Required = append(n.Required, name)
		}
		key := t.Name() + "." + name
		member.Description = fieldNote(key)
		if w := fieldWords(key); w != nil {
			member.Enum = w
		}
		if t.Name() != "Notice" {
			if c := fieldClass(at); c != ClassPublic {
				member.Class = c
			}
		}
		n.Properties[name] = member
	}
	slices.Sort(n.Required)
	return n
}

// value is the schema of one Go value.
func (g *generator) value(t reflect.Type, path string) *node {
	if words := typeWords(t); words != nil {
		return &node{Type: "string", Enum: words}
	}
	switch t {
	case reflect.TypeFor[time.Time]():
		return &node{Type: "string", Format: "date-time"}
	case reflect.TypeFor[State]():
		return &node{Type: "string", Pattern: "^[A-Za-z0-9_]{0,64}$"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.value(t.Elem(), path)
	case reflect.String:
		return &node{Type: "string"}
	case reflect.Bool:
		return &node{Type: "boolean"}
	case reflect.Int, reflect.Int64:
		return &node{Type: "integer"}
	case reflect.Slice:
		return &node{Type: "array", Items: g.value(t.Elem(), path+"[]")}
	case reflect.Struct:
		return g.object(t, path)
	default:
		g.err = fmt.Errorf("no schema for %s at %s", t, path)
		return &node{}
	}
}

// typeWords lists the words of a type whose set is closed within version 1.
func typeWords(t reflect.Type) []string {
	switch t {
	case reflect.TypeFor[Situation]():
		return words(SituationNeedsDetails, SituationNeedsAnswer, SituationWaitingForUser, SituationWorking, SituationReady,
			SituationConfirming, SituationDone, SituationStopped, SituationNeedsSupport, SituationUnknown)
	case reflect.TypeFor[Money]():
		return words(MoneyNotCharged, MoneySetAside, MoneyCharged, MoneyRefunding, MoneyRefunded, MoneyUnknown)
	case reflect.TypeFor[Cause]():
		return words(CauseRevision, CauseReading, CauseBaseline, CauseStill, CauseReset)
	case reflect.TypeFor[Source]():
		return words(SourceStatus, SourceLook, SourceMCP)
	case reflect.TypeFor[NoticeKind]():
		return words(NoticeParked, NoticeResumed, NoticeNotFound, NoticeBlind, NoticeSeeing, NoticeReadyReply, NoticeReset,
			NoticeGaveUp, NoticeBadInput, NoticeForeign, NoticeSinkPaused, NoticeSinkResumed, NoticeAgedOut)
	default:
		return nil
	}
}

// fieldWords lists the words of a field of type string whose set is closed.
func fieldWords(key string) []string {
	switch key {
	case "Purchase.situation_basis":
		return SituationBases()
	case "Purchase.money_basis":
		return MoneyBases()
	case "Purchase.waiting_on":
		return []string{WaitingOnUser, WaitingOnAgent, WaitingOnEnvoy, WaitingOnNobody}
	case "Purchase.agent_report":
		return []string{AgentReportPaid, AgentReportFailed}
	case "Purchase.reason_class":
		return []string{ReasonClassUser, ReasonClassPolicy, ReasonClassOrder, ReasonClassUnknown}
	case "Overdue.deadline":
		return []string{DeadlineNext, DeadlineUserAction, DeadlineApproval, DeadlineFunding, DeadlineSpending}
	default:
		return nil
	}
}

func words[T ~string](list ...T) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}
