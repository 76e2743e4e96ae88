package app

import (
	"reflect"
	"testing"
	"time"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/watch"
)

// Every setting of the watcher comes from the file.
func TestPolicyIsThatOfTheFile(t *testing.T) {
	cfg := &config.Config{Watch: config.Watch{
		RequestsPerMinute: 11, LookEvery: config.Duration(12 * time.Second), DiscoverEvery: config.Duration(13 * time.Second),
		HoldThroughReady: true, Others: true, GiveUp: config.Duration(14 * time.Hour),
	}}
	cfg.NATS.Retention, cfg.Events.IncludePersonal = config.Duration(15*time.Hour), true
	a := &App{Options: Options{Config: cfg}}
	a.now.Store(&wiring{cfg: cfg})
	got := a.watchOptions(&stores{}, nil).Policy
	want := watch.Policy{
		RequestsPerMinute: 11, LookEvery: 12 * time.Second, DiscoverEvery: 13 * time.Second, HoldThroughReady: true, Others: true,
		GiveUp: 14 * time.Hour, Retention: 15 * time.Hour, Personal: true,
	}
	if got != want {
		t.Errorf("policy is %+v", got)
	}
	for v, i := reflect.ValueOf(want), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not tried", v.Type().Field(i).Name)
		}
	}
}
