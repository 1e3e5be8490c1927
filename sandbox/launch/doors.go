package launch

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// doorsSeen is what serve told of its doors.
type doorsSeen struct {
	mu     sync.Mutex
	counts wire.DoorCounts
}

// text is what the doors have done, for the end of a line; "" is nothing.
func (d *doorsSeen) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.counts
	if c == (wire.DoorCounts{}) {
		return ""
	}
	s := fmt.Sprintf("; allowed %d, refused %d", c.Allowed, c.Refused)
	if c.Failed > 0 {
		s += fmt.Sprintf(", failed %d", c.Failed)
	}
	return s
}

func (d *doorsSeen) live() string { return "agent running" + d.text() }

func (s *session) onEvent(e wire.ServeEvent) {
	switch e.Event {
	case wire.EventRefused:
		var r wire.Refused
		if decode(e.Data, &r) {
			s.noteRefused(r)
		}
	case "doors":
		var c wire.DoorCounts
		if decode(e.Data, &c) {
			s.doors.mu.Lock()
			s.doors.counts = c
			s.doors.mu.Unlock()
			s.progress.Count(s.doors.live())
		}
	case wire.EventRequest:
		var r wire.Request
		if decode(e.Data, &r) {
			s.progress.Alert(fmt.Sprintf("request %s waits: %s %s", display.Escape(r.ID), display.Escape(r.Subject.Kind), display.Escape(r.Subject.Name())))
			s.progress.Alert("hint: " + display.Command("proctor", "requests", "show", r.ID, "--session", s.host.ID))
		}
	}
}

// decode reads an event's data; what cannot be read is not shown.
func decode(data json.RawMessage, v any) bool {
	return strictjson.Unmarshal(data, v, strictjson.Limits{Size: wire.MaxLine}) == nil
}

// noteRefused tells the operator what was refused, and what would help.
func (s *session) noteRefused(r wire.Refused) {
	s.progress.Alert("refused: " + display.Escape(r.Door) + ": " + display.Escape(r.Sentence()))
	for _, words := range [][]string{r.Review, r.Remedy} {
		if command := display.Command(words...); command != "" {
			s.progress.Alert("hint: " + command)
		}
	}
}
