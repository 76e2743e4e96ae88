package envoy

// purchase decodes a snapshot into p. Links and the follow-up must be there as the
// contract says, and stay in the buffer.
func (d *decoder) purchase(name string, v int, p *Purchase) {
	o := d.object(name, v)
	p.PurchaseID = o.id("purchase_id")
	o.word("service")
	p.IdempotencyKey = o.text("idempotency_key")
	p.Revision = o.count("revision")
	p.Terminal = o.flag("terminal")
	p.State = o.word("state")
	p.UserTask = o.wordOrNull("user_task")
	p.ReasonCode = o.wordOrNull("reason_code")
	p.StatusText = o.text("status_text")
	p.Rail = o.wordOrNull("rail")
	p.RailReason = o.wordOrNull("rail_reason")
	p.CheckoutBy = o.wordOrNull("checkout_by")
	p.Merchant = o.merchant("merchant")
	p.Amount = o.amount("amount")
	p.Description = o.textOrNull("description")
	p.Details = o.details("details")
	p.Question = o.question("question")
	o.nullable("follow_up", kindObject)
	p.Approval = o.approval("approval")
	p.PaymentReady = o.payment("payment_ready")
	p.Money = o.money("money")
	p.Receipt = o.receipt("receipt")
	p.Chain = o.chain("chain")
	p.Agent = o.agent("agent")
	p.CreatedAt = o.moment("created_at")
	p.UpdatedAt = o.moment("updated_at")
	p.Funding = o.funding("funding")
	o.close()
}

// child opens the object that a required member holds.
func (o object) child(name string) object {
	return o.d.object(name, o.need(name, kindObject))
}

func (o object) amount(name string) Amount {
	c := o.child(name)
	a := Amount{Minor: c.count("minor"), Currency: c.word("currency"), Display: c.text("display")}
	c.close()
	return a
}

func (o object) amountOrNull(name string) *Amount {
	if o.nullable(name, kindObject) == none {
		return nil
	}
	a := o.amount(name)
	return &a
}

func (o object) merchant(name string) Merchant {
	c := o.child(name)
	m := Merchant{Name: c.text("name"), URL: c.text("url")}
	c.close()
	return m
}

func (o object) details(name string) Details {
	c := o.child(name)
	t := Details{Complete: c.flag("complete"), Missing: c.texts("missing", nil)}
	c.close()
	return t
}

// texts decodes a required list of texts; valid may be nil.
func (o object) texts(name string, valid func(string) bool) []string {
	out := []string{}
	o.d.elements(o.need(name, kindArray), func(v int) {
		if o.d.values[v].kind != kindString {
			o.d.fail(name, "holds something else than text")
			return
		}
		s := o.d.unquote(v)
		if valid != nil && !valid(s) {
			o.d.fail(name, notWord)
			return
		}
		out = append(out, s)
	})
	return out
}

func (o object) question(name string) *Question {
	if o.nullable(name, kindObject) == none {
		return nil
	}
	c := o.child(name)
	q := &Question{
		ID: c.text("id"), Kind: c.word("kind"), Prompt: c.text("prompt"), AskedAt: c.moment("asked_at"),
	}
	c.close()
	return q
}

func (o object) approval(name string) Approval {
	c := o.child(name)
	a := Approval{State: c.wordOrNull("state"), Method: c.wordOrNull("method"), DecideBy: c.momentOrNull("decide_by")}
	c.nullable("approval_url", kindString)
	c.close()
	return a
}

func (o object) payment(name string) Payment {
	c := o.child(name)
	p := Payment{
		Available: c.flag("available"), Kind: c.wordOrNull("kind"), ExpiresAt: c.momentOrNull("expires_at"),
		Closed: o.d.flag(c.optional("closed", kindBool)),
	}
	c.close()
	return p
}

func (o object) money(name string) Money {
	c := o.child(name)
	m := Money{
		Status: c.word("status"), Paid: c.amountOrNull("paid"), MerchantOrderRef: c.textOrNull("merchant_order_ref"),
	}
	c.close()
	return m
}

func (o object) receipt(name string) *Receipt {
	if o.nullable(name, kindObject) == none {
		return nil
	}
	c := o.child(name)
	r := &Receipt{
		MerchantOrderRef: c.textOrNull("merchant_order_ref"), Paid: c.amount("paid"),
		Card: c.card("card"), CompletedAt: c.moment("completed_at"),
	}
	c.close()
	return r
}

// card accepts four digits and no more: a whole number in this place would be
// a card number that we hold.
func (o object) card(name string) *Card {
	if o.nullable(name, kindObject) == none {
		return nil
	}
	c := o.child(name)
	k := &Card{Network: c.word("network"), Last4: c.matching("last4", fourDigits, "is not four digits")}
	c.close()
	return k
}

func fourDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) == 4
}

func (o object) chain(name string) Chain {
	c := o.child(name)
	n := Chain{Supersedes: c.idOrNull("supersedes"), SupersededBy: c.idOrNull("superseded_by")}
	c.close()
	return n
}

func (o object) agent(name string) Agent {
	c := o.child(name)
	a := Agent{
		AgentID: c.text("agent_id"), DisplayName: c.text("display_name"), Verification: c.word("verification"),
	}
	c.close()
	return a
}

func (o object) funding(name string) *Funding {
	if o.optional(name, kindObject) == none {
		return nil
	}
	c := o.child(name)
	c.need("url", kindString)
	f := &Funding{Amount: c.amount("amount")}
	t := c.moment("expires_at")
	f.ExpiresAt = &t
	c.close()
	return f
}
