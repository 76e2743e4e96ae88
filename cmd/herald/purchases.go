package main

import (
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/console"
)

func purchasesCommand() *cobra.Command {
	return group("purchases", "Look at purchases", purchasesListCommand(), purchasesShowCommand())
}

func purchasesListCommand() *cobra.Command {
	a := &api{}
	var situation, connection, text string
	var unsettled bool
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the newest state of purchases, those that need somebody first",
		Example: "  herald purchases list\n" +
			"  herald purchases list --situation confirming\n" +
			"  herald purchases list --unsettled --json | jq -r .id",
		RunE: func(c *cobra.Command, _ []string) error {
			q := url.Values{"situation": {situation}, "connection": {connection}, "q": {text}}
			if unsettled {
				q.Set("unsettled", "true")
			}
			return listing[console.Summary]{
				path: "/v1/purchases", query: q, limit: limit, empty: "no such purchase is stored",
				head: []string{"PURCHASE", "CONNECTION", "SITUATION", "SINCE", "MONEY", "MERCHANT", "AMOUNT", "WAITS FOR", "UNTIL"},
				row:  purchaseRow,
			}.print(c, a)
		},
	}
	a.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&situation, "situation", "", "only this situation")
	f.StringVar(&connection, "connection", "", "only this connection")
	f.StringVarP(&text, "search", "q", "", "part of a purchase id or of a merchant's name")
	f.BoolVar(&unsettled, "unsettled", false, "only those whose money is not settled")
	f.IntVar(&limit, "limit", 100, "at the most; 0: all")
	return cmd
}

func purchaseRow(s console.Summary) ([]string, tone) {
	until := "-"
	if s.DeadlineAt != nil {
		until = span(-time.Until(*s.DeadlineAt))
	}
	return []string{s.ID, s.Connection, string(s.Situation), ago(s.SituationSince), string(s.Money), s.Merchant, s.Amount, s.WaitingOn, until},
		toneOf(s.Situation, s.Unsettled)
}

func purchasesShowCommand() *cobra.Command {
	a := &api{}
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show one purchase: its whole history, and every delivery of it",
		Example: "  herald purchases show pur_0b1e9c7a3f2d5a8e9c0b1d2e3f4a5b6c",
		Args:    exactly("the id of a purchase"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client(c)
			if err != nil {
				return err
			}
			var v console.PurchaseView
			if err := client.Get(c.Context(), "/v1/purchases/"+url.PathEscape(args[0]), nil, &v); err != nil {
				return app.Refused(err)
			}
			if a.json {
				return printJSON(c, v)
			}
			return showPurchase(c, v)
		},
	}
	a.flags(cmd)
	return cmd
}

func showPurchase(c *cobra.Command, v console.PurchaseView) error {
	w, s := c.OutOrStdout(), v.Current
	say(w, toneOf(s.Situation, s.Unsettled), "%s  %s, money %s, for %s", s.ID, s.Situation, s.Money, ago(s.SituationSince))
	say(w, plain, "%s  %s  connection %s, waiting on %s", s.Merchant, s.Amount, s.Connection, s.WaitingOn)
	if v.Cut {
		say(w, faint, "the oldest events are left out")
	}
	fmt.Fprintln(w)
	out := newTable(w, "STORED", "REV", "SITUATION", "WHY", "MONEY", "WHY", "CAUSE", "SINK", "OUTCOME", "TRIES", "DETAIL")
	for _, e := range v.History {
		p := e.Event.Purchase
		cells := []string{clock(e.Stored), fmt.Sprint(p.Reading.Revision), string(p.Situation), p.SituationBasis, string(p.Money), p.MoneyBasis, string(p.Reading.Cause)}
		if len(e.Deliveries) == 0 {
			out.add(toneOf(p.Situation, p.Unsettled), append(cells, "-", "-", "-", "")...)
		}
		for i, d := range e.Deliveries {
			if i > 0 {
				cells = []string{"", "", "", "", "", "", ""}
			}
			last := d.Attempts[len(d.Attempts)-1]
			out.add(toneOf(p.Situation, p.Unsettled), append(cells, d.Sink, d.Outcome, fmt.Sprint(last.Attempt), firstOf(last.Detail, last.Reason))...)
		}
	}
	return out.flush()
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
