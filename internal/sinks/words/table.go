package words

import "github.com/heraldbridge/herald/internal/events"

// Tone is how a message looks: its colour, its priority.
type Tone string

// The tones.
const (
	ToneCalm Tone = "calm" // as it goes
	ToneGood Tone = "good" // done
	ToneWait Tone = "wait" // somebody has to act
	ToneWarn Tone = "warn" // money is not settled
	ToneBad  Tone = "bad"  // an operator has to act
)

// Color is the tone as #rrggbb.
func (t Tone) Color() string {
	switch t {
	case ToneGood:
		return "#2e7d32"
	case ToneWait:
		return "#1565c0"
	case ToneWarn:
		return "#ef6c00"
	case ToneBad:
		return "#c62828"
	case ToneCalm:
	}
	return "#757575"
}

// Phrase is how a word is said.
type Phrase struct {
	Title    string // a few words
	Sentence string
	Tone     Tone
}

// showsResult is said wherever the outcome is open.
const showsResult = " The Envoy app will show the result."

// dontRepeat is said wherever money may have moved without anybody knowing.
const dontRepeat = "Nobody should pay again or start a new purchase for it."

// Situation says a situation. A word of tomorrow is said as unknown.
func Situation(s events.Situation) Phrase {
	switch s {
	case events.SituationNeedsDetails:
		return Phrase{"Details needed", "Envoy needs a detail from the user before it can go on.", ToneWait}
	case events.SituationNeedsAnswer:
		return Phrase{"Answer needed", "Envoy asked the user a question and waits for the answer.", ToneWait}
	case events.SituationWaitingForUser:
		return Phrase{"Waiting for the user", "Envoy waits for the user.", ToneWait}
	case events.SituationWorking:
		return Phrase{"In progress", "Envoy is working on the purchase.", ToneCalm}
	case events.SituationReady:
		return Phrase{"Ready to pay", "The agent can pay the merchant now. The merchant's payment is not confirmed yet.", ToneCalm}
	case events.SituationConfirming:
		return Phrase{"Not confirmed yet", "The purchase is not confirmed yet." + showsResult, ToneWarn}
	case events.SituationDone:
		return Phrase{"Complete", "The purchase is complete.", ToneGood}
	case events.SituationStopped:
		return Phrase{"Ended", "The purchase ended without being completed.", ToneCalm}
	case events.SituationNeedsSupport:
		return Phrase{"Needs support", "Envoy cannot confirm what happened." + showsResult, ToneBad}
	case events.SituationUnknown:
	}
	return Phrase{"Unknown state", "Envoy reports a state that this version does not know." + showsResult, ToneWarn}
}

// Next says what comes after a situation and whose move it is; "" where nothing
// is to come.
func Next(s events.Situation) string {
	switch s {
	case events.SituationNeedsDetails, events.SituationNeedsAnswer:
		return "The agent shows the user what Envoy asks, word for word, and passes the answer on. Then Envoy goes on by itself."
	case events.SituationWaitingForUser:
		return "Envoy goes on by itself as soon as the user has acted."
	case events.SituationWorking:
		return "Envoy goes on by itself. Nothing is to be done."
	case events.SituationReady:
		return "The agent pays once and reports the result. Then Envoy confirms it."
	case events.SituationConfirming:
		return "Herald keeps watching until the money is settled."
	case events.SituationNeedsSupport:
		return "Look in the Envoy app. If it does not show the result, ask Envoy's support. Herald keeps watching until the money is settled."
	case events.SituationDone, events.SituationStopped:
		return ""
	case events.SituationUnknown:
	}
	return "Look in the Envoy app. A newer version of Herald may know this state."
}

// Actor names whom a purchase waits on; "" for nobody.
func Actor(waitingOn string) string {
	switch waitingOn {
	case events.WaitingOnUser:
		return "the user"
	case events.WaitingOnAgent:
		return "the agent"
	case events.WaitingOnEnvoy:
		return "Envoy"
	case events.WaitingOnNobody:
		return ""
	}
	return Plain(waitingOn)
}

// Money says what is known of the money, and nothing more.
func Money(m events.Money) Phrase {
	switch m {
	case events.MoneyNotCharged:
		return Phrase{"not charged", "Nothing was charged.", ToneCalm}
	case events.MoneySetAside:
		return Phrase{"set aside", "Money is set aside for this purchase.", ToneWait}
	case events.MoneyCharged:
		return Phrase{"charged", "The user was charged.", ToneCalm}
	case events.MoneyRefunding:
		return Phrase{"on its way back", "The money is on its way back and has not arrived yet.", ToneWarn}
	case events.MoneyRefunded:
		return Phrase{"returned", "The money was returned.", ToneGood}
	case events.MoneyUnknown:
	}
	return Phrase{"not known", "It is not known whether money moved.", ToneWarn}
}

// Task says what the user has to do; "" for no task or one that is not known.
func Task(task, rail string) string {
	switch task {
	case "approve":
		if rail == "gift_card" {
			return "The user has to pay for the gift card in the Envoy app."
		}
		return "The user has to approve the purchase in the Envoy app."
	case "enter_otp":
		return "The user has to enter a code in the Envoy app."
	case "add_money":
		return "The user has to add money in the Envoy app."
	case "resolve_active_purchase":
		return "The user has to deal with another open purchase in the Envoy app first."
	case "pay_link":
		return "The user has to pay the gift card's payment link."
	}
	return ""
}

// Deadline names a deadline by its JSON name.
func Deadline(name string) string {
	switch name {
	case "next_by":
		return "the time for Envoy's next step"
	case "user_action_by":
		return "the time for the user to act"
	case "approval_by":
		return "the time for the approval"
	case "funding_expires_at":
		return "the life of the payment link"
	case "spending_expires_at":
		return "the time in which the payment can be made"
	}
	return "a deadline"
}

// Notice says what a connection or sink reports.
func Notice(k events.NoticeKind) Phrase {
	switch k {
	case events.NoticeParked:
		return Phrase{"Connection parked", "Herald stopped reading this connection.", ToneBad}
	case events.NoticeResumed:
		return Phrase{"Connection resumed", "Herald reads this connection again.", ToneGood}
	case events.NoticeNotFound:
		return Phrase{"Purchase not found", "Envoy does not find a purchase that is watched.", ToneWarn}
	case events.NoticeBlind:
		return Phrase{"Blind", "Herald gets no valid reply and cannot see purchases that may still change.", ToneBad}
	case events.NoticeSeeing:
		return Phrase{"Seeing again", "Herald gets valid replies again.", ToneGood}
	case events.NoticeReadyReply:
		return Phrase{"Ready reply", "A reply may have carried payment details. They were dropped without being decoded.", ToneWarn}
	case events.NoticeReset:
		return Phrase{"Envoy was restored", "Envoy's revisions went back. Herald counts them anew.", ToneWarn}
	case events.NoticeGaveUp:
		return Phrase{"Watch given up", "Herald stopped watching a purchase whose money is not settled.", ToneBad}
	case events.NoticeBadInput:
		return Phrase{"Call refused", "Envoy refused the form of a call.", ToneWarn}
	case events.NoticeForeign:
		return Phrase{"Wrong purchase in replies", "Replies were about another purchase than the one asked for.", ToneBad}
	case events.NoticeSinkPaused:
		return Phrase{"Sink paused", "A sink takes no notifications until an operator acts.", ToneBad}
	case events.NoticeSinkResumed:
		return Phrase{"Sink resumed", "A sink takes notifications again.", ToneGood}
	case events.NoticeAgedOut:
		return Phrase{"Events aged out", "Events grew too old before they could be delivered.", ToneBad}
	}
	return Phrase{"Notice", "A connection reports something.", ToneWarn}
}
