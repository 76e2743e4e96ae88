package envoy

import "slices"

// look decodes data of get_account. Data that is null answers nothing.
func (d *decoder) look(meta Meta, data []byte) *Look {
	l := &Look{Meta: meta, Active: ActiveNotKnown}
	if data == nil {
		return l
	}
	outer := d.object("data", data)
	o := outer.child("account")
	outer.close()
	// Balances, limits, profile and addresses are named and left alone.
	o.known("currency", "balance", "held", "spendable", "limits_reserved", "profile", "addresses", "limits", "services")

	var unavailable []string
	if o.find("unavailable") != nil {
		unavailable = o.texts("unavailable", ValidWord)
	}
	if active := o.find("active_purchase"); active != nil {
		switch {
		case kindOf(active) == kindObject:
			l.Active, l.Purchase = ActiveShown, d.purchase(o.at("active_purchase"), active)
		case kindOf(active) != kindNull:
			d.fail(o.at("active_purchase"), "is not an object")
		case !slices.Contains(unavailable, "active_purchase"):
			l.Active = ActiveNone
		}
	}
	if held := o.optional("held_purchases", kindObject); held != nil {
		l.Held = d.held(o.at("held_purchases"), held)
	}
	if o.optional("agent", kindObject) != nil {
		l.AgentID = o.agent("agent").AgentID
	}
	o.close()
	return l
}

func (d *decoder) held(path string, raw []byte) *HeldPurchases {
	o := d.object(path, raw)
	h := &HeldPurchases{Available: o.flag("available"), Reason: o.wordOrNull("reason"), Items: []HeldItem{}}
	elements(o.need("items", kindArray), func(v []byte) {
		c := d.object(o.at("items"), v)
		i := HeldItem{
			PurchaseID: c.id("purchase_id"), Amount: c.amountOrNull("amount"), Exact: c.flag("exact"),
			State: c.word("state"), Since: c.momentOrNull("since"),
		}
		c.nullable("merchant", kindString)
		c.close()
		h.Items = append(h.Items, i)
	})
	o.nullable("total", kindObject)
	h.Truncated = o.flagOrNull("truncated")
	o.close()
	return h
}

// list decodes data of list_purchases.
func (d *decoder) list(meta Meta, data []byte) *List {
	l := &List{Meta: meta, Items: []ListItem{}}
	if data == nil {
		d.fail("data", "is null")
		return l
	}
	o := d.object("data", data)
	elements(o.need("purchases", kindArray), func(v []byte) {
		c := d.object(o.at("purchases"), v)
		i := ListItem{
			PurchaseID: c.id("purchase_id"), State: c.word("state"), Merchant: c.merchant("merchant"),
			Amount: c.amount("amount"), CheckoutBy: c.wordOrNull("checkout_by"), CreatedAt: c.moment("created_at"),
		}
		c.close()
		l.Items = append(l.Items, i)
	})
	l.Truncated = o.flag("truncated")
	o.close()
	return l
}
