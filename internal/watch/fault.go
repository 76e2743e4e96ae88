package watch

import (
	"context"
	"errors"
	"time"

	"github.com/heraldbridge/herald/internal/envoy"
)

// remedy is what to do about a call that gave nothing.
type remedy string

const (
	remedyNone       remedy = "none"        // the call was ended by us
	remedyLimit      remedy = "limit"       // close the token's budget
	remedyWait       remedy = "wait"        // wait as told, plan again
	remedySlow       remedy = "slow"        // no repeat: slow pace
	remedyAuth       remedy = "auth"        // read the token source again
	remedyForbidden  remedy = "forbidden"   // this tool is stopped for a while
	remedyNoService  remedy = "no_service"  // park the connection
	remedyMissing    remedy = "missing"     // Envoy does not have the purchase
	remedyUpdate     remedy = "update"      // park every connection
	remedyBadInput   remedy = "bad_input"   // never the same call again
	remedyForeign    remedy = "foreign"     // it spoke of another purchase
	remedyHoldEnded  remedy = "hold_ended"  // somebody between ended a hold: no fault
	remedyNoEnvelope remedy = "no_envelope" // an empty answer of a server that works
	remedyOutage     remedy = "outage"
)

// remedyFor branches on error.code and never on the HTTP status, and gives the wait that Envoy asks for.
func remedyFor(err error, held time.Duration) (remedy, time.Duration) {
	var refused *envoy.Error
	if errors.As(err, &refused) {
		return remedyForCode(refused), refused.After
	}
	var outage *envoy.Outage
	if errors.As(err, &outage) {
		return remedyForOutage(outage, held), 0
	}
	if errors.Is(err, context.Canceled) {
		return remedyNone, 0
	}
	return remedyOutage, 0
}

func remedyForCode(e *envoy.Error) remedy {
	switch e.Code {
	case envoy.CodeRateLimited:
		return remedyLimit
	case envoy.CodeUnauthenticated:
		return remedyAuth
	case envoy.CodeNotAllowed:
		return remedyForbidden
	case envoy.CodeServiceNotEnabled:
		return remedyNoService
	case envoy.CodeNotFound:
		return remedyMissing
	case envoy.CodeClientUpdateRequired:
		return remedyUpdate
	case envoy.CodeInvalidInput:
		return remedyBadInput
	case envoy.CodeUnavailable, envoy.CodeIdempotencyConflict, envoy.CodeActivePurchaseExists, envoy.CodeStateConflict,
		envoy.CodeNoRail, envoy.CodeNone:
		return waitOrSlow(e.Retryable)
	default:
		return waitOrSlow(e.Retryable)
	}
}

func waitOrSlow(retryable bool) remedy {
	if retryable {
		return remedyWait
	}
	return remedySlow
}

func remedyForOutage(o *envoy.Outage, held time.Duration) remedy {
	long := held > 0 && o.Took >= held/4
	switch o.Kind {
	case envoy.OutageForeign:
		return remedyForeign
	case envoy.OutageTimeout, envoy.OutageReset:
		if long {
			return remedyHoldEnded
		}
	case envoy.OutageStatus:
		if long {
			return remedyHoldEnded
		}
		if o.Status >= 200 && o.Status < 400 {
			return remedyNoEnvelope
		}
	case envoy.OutageMalformed, envoy.OutageTooLarge, envoy.OutageClientOwn, envoy.OutageDial:
	default:
	}
	return remedyOutage
}

// outcome is the label of a call's result: a closed set, whatever Envoy answers.
func outcome(err error) string {
	var refused *envoy.Error
	var outage *envoy.Outage
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &refused):
		return codeLabel(refused.Code)
	case errors.As(err, &outage):
		return outageLabel(outage.Kind)
	case errors.Is(err, context.Canceled):
		return "cancelled"
	default:
		return "other"
	}
}

func codeLabel(c envoy.Code) string {
	switch c {
	case envoy.CodeInvalidInput, envoy.CodeUnauthenticated, envoy.CodeNotAllowed, envoy.CodeServiceNotEnabled,
		envoy.CodeNotFound, envoy.CodeIdempotencyConflict, envoy.CodeActivePurchaseExists, envoy.CodeStateConflict,
		envoy.CodeNoRail, envoy.CodeRateLimited, envoy.CodeUnavailable, envoy.CodeClientUpdateRequired:
		return string(c)
	case envoy.CodeNone:
		return "no_code"
	default:
		return "other_code"
	}
}

func outageLabel(k envoy.OutageKind) string {
	switch k {
	case envoy.OutageDial, envoy.OutageTimeout, envoy.OutageReset, envoy.OutageStatus, envoy.OutageMalformed,
		envoy.OutageTooLarge, envoy.OutageForeign, envoy.OutageClientOwn:
		return string(k)
	default:
		return "other"
	}
}
