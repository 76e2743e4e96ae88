package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestCheck(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "nats: is starting\n")
	}))
	defer server.Close()

	var out bytes.Buffer
	if err := check(t.Context(), server.URL, &out); err != nil || out.String() != "nats: is starting\n" {
		t.Errorf("ready: %q %v", out.String(), err)
	}
	status = http.StatusServiceUnavailable
	if err := check(t.Context(), server.URL, io.Discard); err == nil {
		t.Error("503 counts as healthy")
	}
	server.Close()
	if err := check(t.Context(), server.URL, io.Discard); err == nil {
		t.Error("no answer counts as healthy")
	}
	if err := check(t.Context(), "http://\x00", io.Discard); err == nil {
		t.Error("no address counts as healthy")
	}
}
