package wire

// PodWord is a launcher's word to the seal step of a session whose containers an
// orchestrator starts: what only the orchestrator's own API knows of them. A
// session that was opened with a launcher passes nothing without it.
type PodWord struct {
	Schema     string      `json:"schema"` // "proctor/pod-word/v1"
	Session    string      `json:"session"`
	Problems   []string    `json:"problems"`   // one sentence each; with any, nothing passes
	OOM        []string    `json:"oom"`        // processes that something was killed in for memory: agent, or checks' names
	Containers []Container `json:"containers"` // as the API reports them
}
