// Package model is a scripted server of the chat completions API, for real coding
// agents in tests: what the model says is the test's, all the rest is real.
package model

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Call is one tool that the model has the agent use.
type Call struct {
	Name string
	Args map[string]any
}

// Write has a new file written.
func Write(path, content string) Call {
	return Call{"write_file", map[string]any{"file_path": path, "content": content}}
}

// Rewrite has a file read and written: the agent writes no file that it has not
// read.
func Rewrite(path, content string) []Call {
	return []Call{{"read_file", map[string]any{"file_path": path}}, Write(path, content)}
}

// Shell has a command run.
func Shell(command string) Call {
	return Call{"run_shell_command", map[string]any{"command": command, "is_background": false, "description": "x"}}
}

// Model answers each question that has tools with its next call, then with a text.
type Model struct {
	key string

	mu    sync.Mutex
	calls []Call
	asked []string // the bodies
	wrong int      // questions without the key
}

// New is a model that answers only who has the key.
func New(key string) *Model { return &Model{key: key} }

// Script says what the model does from here on.
func (m *Model) Script(calls ...Call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = calls
}

// Seen is how many calls are left, how many questions came without the key, and
// what all of them said.
func (m *Model) Seen() (left, wrong int, asked string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.calls), m.wrong, strings.Join(m.asked, "\n")
}

// Told is what the tools answered, by the last question.
func (m *Model) Told() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all strings.Builder
	for _, asked := range m.asked[max(len(m.asked)-1, 0):] {
		var q struct {
			Messages []struct {
				Role    string          `json:"role"`
				Content json.RawMessage `json:"content"`
			} `json:"messages"`
		}
		_ = json.Unmarshal([]byte(asked), &q)
		for _, message := range q.Messages {
			if message.Role == "tool" {
				_, _ = fmt.Fprintf(&all, "%s\n", message.Content)
			}
		}
	}
	return all.String()
}

// ServeHTTP answers one question.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, string(body))
	if r.Header.Get("Authorization") != "Bearer "+m.key || r.URL.Path != "/v1/chat/completions" {
		m.wrong++
		http.Error(w, "no key for "+r.URL.Path, http.StatusUnauthorized)
		return
	}
	var q struct {
		Stream bool              `json:"stream"`
		Tools  []json.RawMessage `json:"tools"`
	}
	_ = json.Unmarshal(body, &q)
	delta, why := map[string]any{"role": "assistant", "content": "done"}, "stop"
	if len(q.Tools) > 0 && len(m.calls) > 0 {
		args, _ := json.Marshal(m.calls[0].Args)
		delta = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
			"index": 0, "id": fmt.Sprintf("call_%d", len(m.calls)), "type": "function",
			"function": map[string]any{"name": m.calls[0].Name, "arguments": string(args)},
		}}}
		why, m.calls = "tool_calls", m.calls[1:]
	}
	part := func(kind, field string, v, end any) map[string]any {
		return map[string]any{"id": "x", "object": kind, "created": 1, "model": "m", "choices": []any{map[string]any{"index": 0, field: v, "finish_reason": end}}}
	}
	if !q.Stream {
		_ = json.NewEncoder(w).Encode(part("chat.completion", "message", delta, why))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, p := range []map[string]any{part("chat.completion.chunk", "delta", delta, nil), part("chat.completion.chunk", "delta", map[string]any{}, why)} {
		b, _ := json.Marshal(p)
		_, _ = fmt.Fprintf(w, "data: %s\n\n", b)
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}
