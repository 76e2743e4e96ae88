package words

// Reason says a reason code; "" for a code that is not known.
func Reason(code string) string { return reasons()[code] }

func reasons() map[string]string {
	return map[string]string{
		"POLICY_DENIED":                 "A policy refused the purchase.",
		"POLICY_AMOUNT_LIMIT":           "The amount is not within the limit that applies.",
		"POLICY_ADMISSION_UNAVAILABLE":  "Envoy could not check whether the purchase is admitted.",
		"POLICY_FRAUD_DECLINED":         "A fraud check declined the purchase.",
		"POLICY_AGENT_LIMIT":            "A limit for this agent is reached.",
		"POLICY_ACTIVE_PURCHASE_EXISTS": "Another purchase of the user is still open.",
		"USER_DECLINED":                 "The user declined.",
		"USER_APPROVAL_EXPIRED":         "The user did not approve in time.",
		"USER_OTP_EXPIRED":              "The user did not enter the code in time.",
		"USER_CANCELLED":                "The user cancelled.",
		"USER_FUNDS_NOT_ADDED":          "The user did not add the money that was needed.",
		"ORDER_CANCELLED_BY_AGENT":      "The agent cancelled.",
		"ORDER_CARD_NOT_ACCEPTED":       "The merchant does not accept the card.",
		"ORDER_CARD_DECLINED":           "The card was declined.",
		"ORDER_OTP_FAILED":              "The code for the payment did not go through.",
		"ORDER_PRICE_CHANGED":           "The price changed.",
		"ORDER_OUT_OF_STOCK":            "The item is out of stock.",
		"ORDER_CHECKOUT_FAILED":         "The checkout failed.",
		"ORDER_CHECKOUT_BLOCKED":        "The merchant's site blocked the checkout.",
		"ORDER_CARD_EXPIRED_UNUSED":     "The card expired without being used.",
		"ORDER_ISSUER_UNAVAILABLE":      "The card's issuer could not be reached.",
		"ORDER_CARD_REQUIRED":           "A card is required.",
		"ORDER_INTEGRATION_ERROR":       "A technical fault stopped the order.",
		"ORDER_OUTCOME_UNKNOWN":         "It is not known what became of the order.",
		"ORDER_CONNECTION_REVOKED":      "The agent's connection was revoked.",

		"RAIL_OTU_PREFERRED":               "A one-time card is the preferred way to pay.",
		"RAIL_AMOUNT_ABOVE_OTU_LIMIT":      "The amount is above what a one-time card may carry.",
		"RAIL_MERCHANT_REJECTS_RUPAY":      "The merchant takes no RuPay cards.",
		"RAIL_MERCHANT_GATEWAY":            "The merchant's payment gateway decides the way to pay.",
		"RAIL_HOST_OPERATED_ONLY":          "For this agent host Envoy checks out itself.",
		"RAIL_CARD_REQUIRED":               "This purchase can only be paid by card.",
		"RAIL_CARD_UNAVAILABLE":            "No card is available for it.",
		"RAIL_AMOUNT_OUTSIDE_CARD_LIMITS":  "The amount is outside the limits of the card.",
		"RAIL_INSUFFICIENT_BALANCE":        "The balance is too low.",
		"RAIL_ISSUER_UNAVAILABLE":          "The issuer of cards could not be reached.",
		"RAIL_OPERATED_UNAVAILABLE":        "Envoy cannot check out at this merchant now.",
		"RAIL_OPERATED_CART_UNSUPPORTED":   "Envoy cannot check out a cart like this one.",
		"RAIL_ELIXIR_INVENTORY":            "The item comes from the Elixir marketplace.",
		"RAIL_GIFT_CARD_CARDLESS":          "It is paid with a gift card, without a card.",
		"RAIL_FALLBACK_CARD_NOT_ACCEPTED":  "Another way to pay was chosen, since the card was not accepted.",
		"RAIL_FALLBACK_ISSUER_UNAVAILABLE": "Another way to pay was chosen, since the issuer could not be reached.",
		"RAIL_FALLBACK_SITE_BLOCKED":       "Another way to pay was chosen, since the site blocked the checkout.",
	}
}
