package crew

import (
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// All jobs run, however many at once, and Close waits for them.
func TestAllJobsRun(t *testing.T) {
	const jobs = 1000
	c := New(4)
	var mu sync.Mutex
	done := 0
	gate := make(chan struct{})
	for range jobs {
		c.Go(func() {
			<-gate
			mu.Lock()
			defer mu.Unlock()
			done++
		})
	}
	close(gate)
	c.Close()
	if done != jobs {
		t.Errorf("%d of %d jobs ran before Close returned", done, jobs)
	}
}

// A goroutine that is done takes the next job, and no more of them wait than may.
func TestGoroutinesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const spare = 3
		c := New(spare)
		for range 100 {
			c.Go(func() {})
			synctest.Wait()
			if n := c.idle.Load(); n != 1 {
				t.Fatalf("%d goroutines wait after jobs one after the other", n)
			}
		}
		gate := make(chan struct{})
		for range 50 {
			c.Go(func() { <-gate })
		}
		synctest.Wait()
		if n := c.idle.Load(); n != 0 {
			t.Errorf("%d goroutines wait while all work", n)
		}
		close(gate)
		synctest.Wait()
		if n := c.idle.Load(); n != spare {
			t.Errorf("%d goroutines wait, not %d", n, spare)
		}
		c.Close()
	})
}
