package route

import (
	"time"

	"cel.dev/cel-go/cel"

	"github.com/heraldbridge/herald/internal/events"
)

// view gives an expression its variables straight from the event, one by one as
// they are asked for. Every variable is always there, empty where the event has none.
type view struct {
	event *events.Event
	now   time.Time
}

// Parent says that there are no other variables.
func (v view) Parent() cel.Activation { return nil }

// ResolveName gives the variable of that name.
func (v view) ResolveName(name string) (any, bool) {
	switch name {
	case "type":
		return string(v.event.Type), true
	case "id":
		return v.event.ID, true
	case "source":
		return v.event.Source, true
	case "subject":
		return v.event.Subject, true
	case "time":
		return v.event.Time, true
	case "now":
		return v.now, true
	case "connection":
		return connection(v.event), true
	case "notice":
		return viewNotice(v.event.Notice), true
	}
	p := v.event.Purchase
	if p == nil {
		p = &events.Purchase{}
	}
	if value, ok := purchaseFlat(p, name); ok {
		return value, true
	}
	return purchaseNested(p, name)
}

func purchaseFlat(p *events.Purchase, name string) (any, bool) {
	switch name {
	case "situation":
		return string(p.Situation), true
	case "state":
		return string(p.State), true
	case "money":
		return string(p.Money), true
	case "unsettled":
		return p.Unsettled, true
	case "terminal":
		return p.Terminal, true
	case "rail":
		return p.Rail, true
	case "checkout_by":
		return p.CheckoutBy, true
	case "reason_code":
		return p.ReasonCode, true
	case "waiting_on":
		return p.WaitingOn, true
	case "revision":
		return p.Reading.Revision, true
	case "cause":
		return string(p.Reading.Cause), true
	}
	return nil, false
}

func purchaseNested(p *events.Purchase, name string) (any, bool) {
	switch name {
	case "question":
		if p.Question == nil {
			return questionView{}, true
		}
		return questionView{ID: p.Question.ID, Kind: p.Question.Kind}, true
	case "merchant":
		return merchantView{Name: p.Merchant.Name, URL: p.Merchant.URL}, true
	case "amount":
		return amountView{Minor: p.Amount.Minor, Currency: p.Amount.Currency, Display: p.Amount.Display}, true
	case "previous":
		if p.Previous == nil {
			return previousView{}, true
		}
		return previousView{
			ID: p.Previous.ID, Revision: p.Previous.Revision,
			State: string(p.Previous.State), Situation: string(p.Previous.Situation),
		}, true
	}
	return nil, false
}

func viewNotice(n *events.Notice) noticeView {
	if n == nil {
		return noticeView{}
	}
	return noticeView{Kind: string(n.Kind), Code: n.Code, PurchaseID: n.PurchaseID, Sink: n.Sink, Count: n.Count}
}

func connection(e *events.Event) string {
	switch {
	case e.Purchase != nil:
		return e.Purchase.Connection
	case e.Notice != nil:
		return e.Notice.Connection
	}
	return ""
}
