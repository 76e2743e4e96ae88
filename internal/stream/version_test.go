package stream

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckVersion(t *testing.T) {
	for version, good := range map[string]bool{
		"2.11.0": true, "2.11.0-RC.1": true, "2.12.3": true, "v2.15.2": true, "3.0.0": true,
		"2.10.29": false, "2.9.0": false, "1.99.0": false, "": false, "dev": false, "2": false, "two.eleven.0": false,
	} {
		err := checkVersion(version)
		if good != (err == nil) {
			t.Errorf("%q: %v", version, err)
		}
		if err != nil && (!errors.Is(err, ErrServerTooOld) || !strings.Contains(err.Error(), "2.11") || !strings.Contains(err.Error(), version)) {
			t.Errorf("%q: the error %q does not name both versions", version, err)
		}
	}
}

func TestRedactURL(t *testing.T) {
	for in, want := range map[string]string{
		"nats://host:4222":                            "nats://host:4222",
		"nats://me:secret@host:4222":                  "nats://xxxxx@host:4222",
		"tls://token@a:1, nats://me:p@ss@b:2, c:4222": "tls://xxxxx@a:1,nats://xxxxx@b:2,c:4222",
	} {
		if got := redactURL(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
