package envoy

import "slices"

// look decodes data of get_account. Data that is null answers nothing.
func (d *decoder) look(meta Meta, data int) *Look {
	l := &Look{Meta: meta, Active: ActiveNotKnown}
	if data == none {
		return l
	}
	outer := d.object("data", data)
	o := outer.child("account")
	// Balances, limits, profile and addresses are named and left alone.
	o.known("currency", "balance", "held", "spendable", "limits_reserved", "profile", "addresses", "limits", "services")

	var unavailable []string
	if o.find("unavailable") != none {
		unavailable = o.texts("unavailable", ValidWord)
	}
	if active := o.find("active_purchase"); active != none {
		switch kind := d.values[active].kind; {
		case kind == kindObject:
			l.Active, l.Purchase = ActiveShown, &Purchase{}
			d.purchase("active_purchase", active, l.Purchase)
		case kind != kindNull:
			d.fail("active_purchase", "is not an object")
		case !slices.Contains(unavailable, "active_purchase"):
			l.Active = ActiveNone
		}
	}
	if held := o.optional("held_purchases", kindObject); held != none {
		l.Held = d.held("held_purchases", held)
	}
	if o.optional("agent", kindObject) != none {
		l.AgentID = o.agent("agent").AgentID
	}
	o.close()
	outer.close()
	return l
}

func (d *decoder) held(name string, v int) *HeldPurchases {
	o := d.object(name, v)
	h := &HeldPurchases{Available: o.flag("available"), Reason: o.wordOrNull("reason"), Items: []HeldItem{}}
	d.elements(o.need("items", kindArray), func(v int) {
		c := d.object("items", v)
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
func (d *decoder) list(meta Meta, data int) *List {
	l := &List{Meta: meta, Items: []ListItem{}}
	if data == none {
		d.fail("data", "is null")
		return l
	}
	o := d.object("data", data)
	d.elements(o.need("purchases", kindArray), func(v int) {
		c := d.object("purchases", v)
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
