package console

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/heraldbridge/herald/internal/events"
)

// SilenceRequest is a silence to add. Either Until or For says when it ends.
type SilenceRequest struct {
	Match string    `json:"match"` // CEL over the event
	Until time.Time `json:"until,omitzero"`
	For   Duration  `json:"for,omitempty"`
	Why   string    `json:"why"`
	By    string    `json:"by,omitempty"`
}

const (
	longestSilence = 30 * 24 * time.Hour
	longestWhy     = 500
	longestBy      = 80
	mostSilences   = 200 // each is worked out for each event that would be told
)

func (c *console) listSilences(w http.ResponseWriter, r *http.Request) error {
	q, err := parameters(r, "limit", "after")
	if err != nil {
		return err
	}
	list, err := c.Silences.Silences(r.Context())
	if err != nil {
		return err
	}
	page, err := cut(list, func(s events.Silence) string { return oldestFirst(s.Until) + s.ID }, q)
	if err != nil {
		return err
	}
	return give(w, page)
}

// silence checks a request and makes the silence of it.
func (c *console) silence(q SilenceRequest, now time.Time) (events.Silence, error) {
	s := events.Silence{ID: "sil-" + strings.ToLower(rand.Text()[:12]), Match: q.Match, Until: q.Until.UTC(), Why: strings.TrimSpace(q.Why), By: strings.TrimSpace(q.By)}
	if strings.TrimSpace(q.Match) == "" {
		return s, wrong("match", "is missing: say which events, for example connection == \"host-a\"")
	}
	if _, err := c.Match(q.Match); err != nil {
		return s, wrong("match", place(err))
	}
	switch {
	case q.For != 0 && !q.Until.IsZero():
		return s, wrong("for", "is given beside until")
	case q.For != 0:
		s.Until = now.Add(time.Duration(q.For)).UTC()
	case q.Until.IsZero():
		return s, wrong("until", "is missing: a silence has an end")
	}
	switch {
	case !s.Until.After(now):
		return s, wrong("until", "is not in the future")
	case s.Until.Sub(now) > longestSilence+time.Minute:
		return s, wrong("until", "is more than 30 days away")
	case s.Why == "":
		return s, wrong("why", "is missing: say why, for whoever wonders at the quiet")
	case !plainText(s.Why, longestWhy):
		return s, wrong("why", fmt.Sprintf("is not one line of %d characters at the most", longestWhy))
	case !plainText(s.By, longestBy):
		return s, wrong("by", fmt.Sprintf("is not one line of %d characters at the most", longestBy))
	}
	return s, nil
}

// plainText tells whether s is one line of printable text.
func plainText(s string, most int) bool {
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > most {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) })
}

func (c *console) addSilence(w http.ResponseWriter, r *http.Request) error {
	var q SilenceRequest
	if err := body(w, r, &q); err != nil {
		return err
	}
	s, err := c.silence(q, time.Now())
	if err != nil {
		return err
	}
	list, err := c.Silences.Silences(r.Context())
	if err != nil {
		return err
	}
	if len(list) >= mostSilences {
		return &Refusal{Status: http.StatusConflict, Problem: fmt.Sprintf("%d silences are in force: remove one first", mostSilences)}
	}
	if err := c.Silences.PutSilence(r.Context(), s); err != nil {
		return err
	}
	answer(w, http.StatusCreated, s)
	return nil
}

func (c *console) removeSilence(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if !events.ValidEventID(id) {
		return wrong("id", "is no id of a silence")
	}
	list, err := c.Silences.Silences(r.Context())
	if err != nil {
		return err
	}
	for _, s := range list {
		if s.ID != id {
			continue
		}
		if err := c.Silences.DeleteSilence(r.Context(), id); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return absent("id", "no silence has this id")
}
