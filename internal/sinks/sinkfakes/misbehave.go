package sinkfakes

import (
	"io"
	"net/http"
	"strings"
	"time"
)

// Drip answers one header byte at a time, without end, until the client leaves.
func Drip(every time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for _, c := range "HTTP/1.1 200 OK\r\nX-Slow: " + strings.Repeat("a", 60000) {
			if _, err := conn.Write([]byte{byte(c)}); err != nil {
				return
			}
			<-ticker.C
		}
	}
}

// Flood answers with a status and a body of the given number of bytes; a negative
// number means without end. It stops when the client leaves.
func Flood(status int, size int64) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		chunk := strings.Repeat("x", 32<<10)
		for sent := int64(0); size < 0 || sent < size; sent += int64(len(chunk)) {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	}
}

// Hang answers nothing until the client leaves.
func Hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Cut closes the connection without an answer.
func Cut(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// DripBody answers 200 at once and a body of one byte at a time, without end.
func DripBody(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := io.WriteString(w, "x"); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
	}
}
