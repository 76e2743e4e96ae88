package envoysim

// heldArgs are the arguments of the next held read. A revision of 0 must be there: leaving it out would not hold.
type heldArgs struct {
	Purchase      string `json:"purchase"`
	AfterRevision int    `json:"after_revision"`
	WaitSeconds   int    `json:"wait_seconds"`
}

type answerArgs struct {
	Type     string `json:"type"`
	Purchase string `json:"purchase"`
	Question string `json:"question"`
}

type purchaseArgs struct {
	Purchase string `json:"purchase"`
}

type accountArgs struct {
	Include []string `json:"include"`
}

// show puts a purchase on a reply, with what it means for agent and user.
func (r *reply) show(p *Purchase) *reply {
	r.Purchase, r.Next, r.UserAction = p.wire(), nextOf(p), actionOf(p)
	if p.FollowUp != nil {
		r.FollowUps = []wireLater{{
			Tool: toolAnswer, Args: map[string]any{"type": "feedback", "purchase": p.ID, "question": p.FollowUp.ID},
			Why: "The user may want to say how the purchase went.",
		}}
	}
	return r
}

// nextOf is what the agent is told to do about a purchase.
func nextOf(p *Purchase) wireNext {
	zero := 0
	hold := wireNext{
		Action: "call_tool", Tool: toolStatus, Args: heldArgs{p.ID, p.Revision, 45}, AfterSeconds: &zero, By: stamp(p.Deadline),
		Instruction: "Hold-read the status until the state changes or next.by passes.",
	}
	switch p.State {
	case NeedsDetails, NeedsAnswer:
		kind, id := "answer", ""
		if p.State == NeedsDetails {
			kind = "details"
		}
		if p.Question != nil {
			id = p.Question.ID
		}
		return wireNext{
			Action: "call_tool", Tool: toolAnswer, Args: answerArgs{kind, p.ID, id},
			Instruction: "Show the user the question as it stands and send back their own words.",
		}
	case WaitingForUser, Processing:
		return hold
	case Ready:
		return wireNext{
			Action: "checkout", Tool: toolReport, Args: purchaseArgs{p.ID}, By: stamp(p.Handout.ExpiresAt),
			Instruction: "Use the details once at this merchant, then report the result.",
		}
	case Verifying:
		if p.Stop {
			return wireNext{Action: "stop", Instruction: "Stop checking for now. Do not pay again; the Envoy app shows the result."}
		}
		return hold
	case Completed:
		return wireNext{Action: "done", Instruction: "The purchase is complete. Carry on with the task."}
	case Superseded:
		if p.SupersededBy == "" {
			return wireNext{
				Action: "call_tool", Tool: toolAccount, Args: accountArgs{[]string{"active_purchase"}},
				Instruction: "Look for the purchase that took this one's place.",
			}
		}
		return wireNext{
			Action: "call_tool", Tool: toolStatus, Args: purchaseArgs{p.SupersededBy},
			Instruction: "Follow the purchase that took this one's place.",
		}
	case Failed, Cancelled:
	}
	return wireNext{Action: "stop", Instruction: "Tell the user and stop this purchase."}
}

// actionOf is what the user is asked to do about a purchase; nil: nothing.
func actionOf(p *Purchase) *wireAction {
	if p.State != WaitingForUser {
		return nil
	}
	a := &wireAction{Task: string(p.UserTask), By: stamp(p.Approval.DecideBy), Message: p.StatusText}
	if p.Funding != nil {
		a.URL = word(p.Funding.URL)
	}
	return a
}
