package envoysim

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

type product struct {
	ID          string    `json:"product_id"`
	Name        string    `json:"name"`
	Brand       word      `json:"brand"`
	Image       word      `json:"image"`
	Price       wireMoney `json:"price"`
	Quantity    int       `json:"quantity"`
	Total       wireMoney `json:"total"`
	ValidUntil  stamp     `json:"valid_until"`
	MerchantURL string    `json:"merchant_url"`
}

type productList struct {
	Products []product `json:"products"`
}

// elixirStore is the merchant address of Elixir's own marketplace.
const elixirStore = "https://elixir.cards"

// searchProducts makes up one to five products out of the query. A query about nothing finds nothing.
func (s *Sim) searchProducts(_ context.Context, c *call) *reply {
	query, quantity := c.str("query"), 1
	if n, ok := c.num("quantity"); ok {
		quantity = n
	}
	h := fnv.New64a()
	h.Write([]byte(query)) // a hash never fails to write
	seed := h.Sum64()
	list := productList{Products: []product{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range 1 + seed%5 {
		if strings.Contains(strings.ToLower(query), "nothing") {
			break
		}
		n := mix(seed + i)
		price := int64(9900 + n%500_00)
		p := product{
			ID: fmt.Sprintf("ofr_%016x%016x", n, mix(n)), Name: cut(fmt.Sprintf("%s, choice %d", query, i+1), 200),
			Brand: "Synthetic Goods", Price: rupees(price), Quantity: quantity, Total: rupees(price * int64(quantity)),
			ValidUntil: stamp(s.now().Add(30 * time.Minute)), MerchantURL: elixirStore,
		}
		if i%2 == 0 {
			p.Image = "https://cdn.example.test/product.jpg"
		}
		list.Products = append(list.Products, p)
	}
	r := s.blankLocked(c.tool)
	r.Data = list
	r.Next.Instruction = "Show the user each product with its price and total; buy only what the user picks, with start_purchase."
	return r
}

type giftMerchant struct {
	Name     string      `json:"name"`
	Domain   string      `json:"domain"`
	Amounts  []wireMoney `json:"amounts"`
	Range    *moneyRange `json:"amount_range"`
	Discount *float64    `json:"discount_percent"`
	RedeemAt word        `json:"redeem_at"`
}

type moneyRange struct {
	Min wireMoney `json:"min"`
	Max wireMoney `json:"max"`
}

type giftMerchantList struct {
	Merchants []giftMerchant `json:"merchants"`
}

func (s *Sim) listMerchants(_ context.Context, c *call) *reply {
	three := 3.0
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.blankLocked(c.tool)
	r.Data = giftMerchantList{Merchants: []giftMerchant{
		{
			Name: "Example Store", Domain: "shop.example.test", Amounts: []wireMoney{rupees(50_000), rupees(100_000)},
			Discount: &three, RedeemAt: "checkout",
		},
		{
			Name: "Spice & Sons <Retail>", Domain: "spice.example.test", Amounts: []wireMoney{},
			Range: &moneyRange{Min: rupees(10_000), Max: rupees(1_000_000)}, RedeemAt: "account",
		},
		{Name: "राम ट्रेडर्स", Domain: "ram.example.test", Amounts: []wireMoney{rupees(25_000)}},
	}}
	return r
}
