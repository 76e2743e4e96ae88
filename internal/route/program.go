package route

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"

	"github.com/heraldbridge/herald/internal/events"
)

const (
	// costLimit bounds one evaluation, in units of the expression language: a
	// comparison costs about one, a search in a text about a tenth per character.
	costLimit = 20_000
	// sizeLimit bounds the text of an expression, in characters.
	sizeLimit = 4096
	// depthLimit bounds how deep an expression may nest.
	depthLimit = 64
)

// merchantView and the types below are what expressions see of the nested parts
// of an event. They are types of their own, so that a misspelt field is refused
// when the expression is compiled, and so that nothing personal is offered.
type merchantView struct {
	Name string `cel:"name"`
	URL  string `cel:"url"`
}

type amountView struct {
	Minor    int64  `cel:"minor"`
	Currency string `cel:"currency"`
	Display  string `cel:"display"`
}

type questionView struct {
	ID   string `cel:"id"`
	Kind string `cel:"kind"`
}

type previousView struct {
	ID        string `cel:"id"`
	Revision  int64  `cel:"revision"`
	State     string `cel:"state"`
	Situation string `cel:"situation"`
}

type noticeView struct {
	Kind       string `cel:"kind"`
	Code       string `cel:"code"`
	PurchaseID string `cel:"purchase_id"`
	Sink       string `cel:"sink"`
	Count      int64  `cel:"count"`
}

// Program is a compiled condition over an event. It is safe for concurrent use.
type Program struct {
	text    string
	program cel.Program
	usesNow bool
}

// CompileMatch compiles a condition over an event. Its errors are
// *CompileError, joined, without a subscription.
func CompileMatch(expr string) (*Program, error) {
	c, err := newCompiler()
	if err != nil {
		return nil, err
	}
	return c.compile("", "match", expr)
}

// Match reports whether the event meets the condition at the moment now. An
// error means that the expression cannot be worked out for this event, or that
// it costs too much.
func (p *Program) Match(e events.Event, now time.Time) (bool, error) {
	v := view{event: &e, now: now}
	out, _, err := p.program.Eval(v)
	if err != nil {
		return false, fmt.Errorf("evaluate expression: %w", err)
	}
	yes, ok := out.(types.Bool)
	if !ok {
		return false, errors.New("evaluate expression: the result is not a bool")
	}
	return bool(yes), nil
}

// UsesNow reports whether the result can change while the event stays the same.
func (p *Program) UsesNow() bool { return p.usesNow }

// String is the text of the expression.
func (p *Program) String() string { return p.text }

// compiler holds the one environment that all expressions of a file share.
type compiler struct{ env *cel.Env }

func newCompiler() (*compiler, error) {
	object := func(v any) *cel.Type { return cel.ObjectType(reflect.TypeOf(v).String()) }
	text, flag := cel.StringType, cel.BoolType
	env, err := cel.NewEnv(
		ext.NativeTypes(
			reflect.TypeFor[merchantView](), reflect.TypeFor[amountView](), reflect.TypeFor[questionView](),
			reflect.TypeFor[previousView](), reflect.TypeFor[noticeView](), ext.ParseStructTags(true),
		),
		cel.ParserExpressionSizeLimit(sizeLimit),
		cel.ParserRecursionLimit(depthLimit),
		cel.DefaultUTCTimeZone(true),
		cel.Variable("type", text), cel.Variable("id", text), cel.Variable("source", text),
		cel.Variable("subject", text), cel.Variable("connection", text),
		cel.Variable("time", cel.TimestampType), cel.Variable("now", cel.TimestampType),
		cel.Variable("situation", text), cel.Variable("state", text), cel.Variable("money", text),
		cel.Variable("unsettled", flag), cel.Variable("terminal", flag),
		cel.Variable("rail", text), cel.Variable("checkout_by", text), cel.Variable("reason_code", text),
		cel.Variable("waiting_on", text), cel.Variable("revision", cel.IntType), cel.Variable("cause", text),
		cel.Variable("question", object(questionView{})), cel.Variable("merchant", object(merchantView{})),
		cel.Variable("amount", object(amountView{})), cel.Variable("previous", object(previousView{})),
		cel.Variable("notice", object(noticeView{})),
	)
	if err != nil {
		return nil, fmt.Errorf("build expression environment: %w", err)
	}
	return &compiler{env: env}, nil
}

// compile checks one expression; errors name the subscription and the field it stands in.
func (c *compiler) compile(subscription, field, expr string) (*Program, error) {
	refuse := func(line, column int, problem string) *CompileError {
		return &CompileError{Subscription: subscription, Field: field, Line: line, Column: column, Problem: problem}
	}
	if strings.TrimSpace(expr) == "" {
		return nil, refuse(1, 1, "the expression is empty")
	}
	ast, issues := c.env.Compile(expr)
	if issues != nil && issues.Err() != nil {
		var all []error
		for _, one := range issues.Errors() {
			all = append(all, refuse(one.Location.Line(), one.Location.Column()+1, one.Message))
		}
		return nil, errors.Join(all...)
	}
	if ast.OutputType() != cel.BoolType {
		return nil, refuse(1, 1, fmt.Sprintf("the result is %s, it must be bool", ast.OutputType()))
	}
	program, err := c.env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(costLimit))
	if err != nil {
		return nil, refuse(1, 1, err.Error())
	}
	p := &Program{text: expr, program: program}
	for _, ref := range ast.NativeRep().ReferenceMap() {
		if ref.Name == "now" {
			p.usesNow = true
		}
	}
	return p, nil
}
