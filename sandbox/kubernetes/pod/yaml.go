package pod

import (
	"encoding/json"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Write writes objects of the Kubernetes API as YAML documents, in the order of
// their fields, without a status.
func Write(w io.Writer, objects ...any) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	for _, o := range objects {
		b, err := json.Marshal(o)
		if err != nil {
			return err
		}
		var doc yaml.Node // JSON is YAML
		if err := yaml.Unmarshal(b, &doc); err != nil {
			return err
		}
		plain(&doc)
		root := doc.Content[0]
		if i := slices.IndexFunc(root.Content, func(n *yaml.Node) bool { return n.Value == "status" }); i >= 0 {
			root.Content = slices.Delete(root.Content, i, i+2)
		}
		if err := e.Encode(&doc); err != nil {
			return err
		}
	}
	return e.Close()
}

// plain lets the encoder choose how each value is written.
func plain(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		plain(c)
	}
}
