package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/proctor-project/proctor/sidecar/display"
)

// progressMode is --progress.
type progressMode string

const (
	progressAuto  progressMode = "auto"
	progressPlain progressMode = "plain"
	progressJSON  progressMode = "json"
	progressNone  progressMode = "none"
)

// progress prints the phases of a session: on a terminal finished phases stay
// and one line is live, elsewhere each event is one line with its time.
type progress struct {
	mu      sync.Mutex
	w       io.Writer
	live    bool // w is a terminal that takes a live line
	off     bool
	json    bool // one object a line
	phase   string
	detail  string
	began   time.Time
	drawn   bool // a live line stands on the terminal
	now     func() time.Time
	paste   func(command string) string // makes a hint mean the same home; nil leaves it
	lastLog time.Time
}

// heartbeat is how often a long phase says that it is still there, off a terminal.
const heartbeat = 30 * time.Second

func newProgress(w io.Writer, mode progressMode, isTerminal, quiet bool) *progress {
	return &progress{
		w: w, now: time.Now, off: mode == progressNone || quiet,
		live: mode == progressAuto && isTerminal, json: mode == progressJSON,
	}
}

func (p *progress) Begin(phase, detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase, p.detail, p.began = phase, detail, p.now()
	p.lastLog = p.began
	if p.live {
		p.draw()
	} else {
		p.plain("started", detail)
	}
}

func (p *progress) Live(detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.detail = detail
	if p.live {
		p.draw()
	} else {
		p.plain(detail, "")
	}
}

func (p *progress) End(phase, detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		p.erase()
		p.print("  %-8s %8s  %s\n", phase, display.Duration(p.now().Sub(p.began)), display.Escape(detail))
	} else {
		p.plain("done", detail)
	}
	p.phase = ""
}

func (p *progress) Count(detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.detail = detail
	p.draw()
}

// Alert is printed also where progress is off.
func (p *progress) Alert(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if command, ok := strings.CutPrefix(text, "hint: "); ok && p.paste != nil {
		text = "hint: " + p.paste(command)
	}
	if p.json && !p.off {
		p.object("alert", text)
		return
	}
	p.erase()
	_, _ = fmt.Fprintf(p.w, "proctor: %s\n", text)
	p.draw()
}

func (p *progress) Note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.json {
		p.object("note", text)
		return
	}
	p.erase()
	p.print("proctor: %s\n", display.Escape(text))
	p.draw()
}

// object prints an event for a program to read.
func (p *progress) object(event, detail string) {
	b, err := json.Marshal(struct {
		Time   time.Time `json:"time"`
		Phase  string    `json:"phase"`
		Event  string    `json:"event"`
		Detail string    `json:"detail"`
	}{p.now().UTC(), p.phase, event, display.Escape(detail)})
	if err == nil {
		p.print("%s\n", b)
	}
}

// tick redraws the live line, or says off a terminal that a phase goes on.
func (p *progress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.phase == "":
	case p.live:
		p.draw()
	case p.now().Sub(p.lastLog) >= heartbeat:
		p.lastLog = p.now()
		p.plain("still running", p.detail)
	}
}

// run ticks until stop is closed.
func (p *progress) run(stop <-chan struct{}) {
	every := time.Second
	if !p.live {
		every = heartbeat
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			p.tick()
		}
	}
}

func (p *progress) plain(what, detail string) {
	if p.json {
		p.object(what, detail)
		return
	}
	text := what
	if detail != "" {
		text += ": " + display.Escape(detail)
	}
	p.print("%s %s: %s\n", p.now().Format(time.TimeOnly), p.phase, text)
}

func (p *progress) draw() {
	if !p.live || p.off || p.phase == "" {
		return
	}
	p.erase()
	line := fmt.Sprintf("  %-8s %8s  %s", p.phase, display.Duration(p.now().Sub(p.began)), display.Escape(p.detail))
	p.print("%s", cut(line, p.columns()-1))
	p.drawn = true
}

// columns is the terminal's width: a live line that wraps cannot be erased.
func (p *progress) columns() int {
	if f, ok := p.w.(interface{ Fd() uintptr }); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

// cut shortens a printable line to so many characters.
func cut(line string, most int) string {
	if runes := []rune(line); len(runes) > most {
		return string(runes[:max(0, most-1)]) + "…"
	}
	return line
}

func (p *progress) erase() {
	if p.drawn {
		p.print("\r\x1b[K")
		p.drawn = false
	}
}

// print ignores a reader that went away: the session goes on to its seal.
func (p *progress) print(format string, args ...any) {
	if !p.off {
		_, _ = fmt.Fprintf(p.w, format, args...)
	}
}

// outside prints what is not ours, above the live line.
type outside struct {
	p *progress
	w io.Writer
}

func (o outside) Write(b []byte) (int, error) {
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	o.p.erase()
	n, err := o.w.Write(b)
	if strings.HasSuffix(string(b), "\n") {
		o.p.draw()
	}
	return n, err
}

// terminal reports whether the stream is a terminal that takes control codes.
func terminal(w io.Writer, env func(string) string) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd())) && env("TERM") != "dumb"
}
