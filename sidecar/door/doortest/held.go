package doortest

import (
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

// held is what a process holds.
type held struct {
	goroutines, files int
	memory            uint64 // heap and stacks that are in use, in bytes
}

// slack is how much more of each is no growth: a runtime never gives back all.
const (
	slackMany   = 20
	slackMemory = 8 << 20
	settleTime  = 10 * time.Second
)

// now is what is held once there are no more goroutines and files than in
// before, or after a while.
func now(t testing.TB, before held) held {
	t.Helper()
	var h held
	for until := time.Now().Add(settleTime); ; runtime.Gosched() {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		h.goroutines, h.files = runtime.NumGoroutine(), len(fds)
		if h.goroutines <= before.goroutines+slackMany && h.files <= before.files+slackMany || time.Now().After(until) {
			break
		}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first found unreachable is free after the second
	runtime.ReadMemStats(&m)
	h.memory = m.HeapInuse + m.StackInuse
	return h
}

func (h held) grew(from held) bool {
	return h.goroutines > from.goroutines+slackMany || h.files > from.files+slackMany || h.memory > from.memory+slackMemory
}

// Soak fails if the process holds more after many rounds than after a hundred.
func Soak(t *testing.T, rounds func(n int)) {
	t.Helper()
	start := now(t, held{})
	rounds(100)
	few := now(t, start)
	rounds(3000)
	if many := now(t, few); many.grew(few) {
		t.Errorf("%+v after 100 rounds, %+v after 3,000 more", few, many)
	}
}

// Thousand opens a thousand connections, each with what open returns to close
// it, twice. It fails if one takes more than most bytes, if the second thousand
// takes more than the first, or if something is left of them. Of a benchmark it
// reports what one takes.
func Thousand(t testing.TB, most uint64, open func() (closed func(), err error)) {
	t.Helper()
	const connections = 1000
	wave := func() (hold held) {
		t.Helper()
		var all sync.WaitGroup
		gate, failed := make(chan struct{}, 50), make(chan error, connections)
		ends := make(chan func(), connections)
		for range connections {
			gate <- struct{}{}
			all.Go(func() {
				end, err := open()
				if err != nil {
					failed <- err
				} else {
					ends <- end
				}
				<-gate
			})
		}
		all.Wait()
		close(failed)
		for err := range failed {
			t.Fatal(err)
		}
		hold = now(t, held{goroutines: 1 << 30, files: 1 << 30})
		close(ends)
		for end := range ends {
			end()
		}
		return hold
	}
	end, err := open() // so that what is made once is not counted a thousand times
	if err != nil {
		t.Fatal(err)
	}
	end()
	before := now(t, held{})
	one := wave()
	between := now(t, before)
	two := wave()
	after := now(t, before)
	each := (one.memory - min(before.memory, one.memory)) / connections
	if b, ok := t.(*testing.B); ok {
		b.ReportMetric(float64(each), "B/connection")
	}
	t.Logf("%d KiB a connection, clients and servers of the test included", each>>10)
	if each > most {
		t.Errorf("%d bytes a connection, at most %d", each, most)
	}
	if two.memory > one.memory+slackMemory {
		t.Errorf("%d MiB for the first thousand, %d MiB for the second", one.memory>>20, two.memory>>20)
	}
	before.memory = between.memory // what the runtime keeps after the first time is no growth
	if between.grew(before) || after.grew(before) {
		t.Errorf("left: %+v before, %+v after the first, %+v after the second", before, between, after)
	}
}
