package kubernetes

import (
	"encoding/json"
	"strings"
	"testing"
)

const askedPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"b"}},
"spec":{"restartPolicy":"Never","automountServiceAccountToken":false,"securityContext":{"runAsNonRoot":true},
"volumes":[{"name":"stage","emptyDir":{"sizeLimit":"1Gi"}}],
"initContainers":[{"name":"stage","image":"proctor:1","env":[{"name":"A","value":"b"}],"resources":{},"volumeMounts":[{"name":"stage","mountPath":"/stage"}]},
{"name":"agent","image":"agent:1","resources":{"limits":{"memory":"1Gi"}}}],
"containers":[{"name":"seal","image":"proctor:1"}]},"status":{}}`

// filledIn is what API server, scheduler and kubelet make of askedPod.
const filledIn = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"n","labels":{"a":"b"},"uid":"u","creationTimestamp":"2026-01-01T00:00:00Z",
"resourceVersion":"1","generation":1,"managedFields":[{"manager":"proctor"}],"annotations":{"cni.projectcalico.org/podIP":"10.0.0.1/32"}},
"spec":{"restartPolicy":"Never","automountServiceAccountToken":false,"securityContext":{"runAsNonRoot":true},
"dnsPolicy":"ClusterFirst","schedulerName":"default-scheduler","serviceAccount":"default","serviceAccountName":"default","priority":0,
"preemptionPolicy":"PreemptLowerPriority","imagePullSecrets":[{"name":"registry"}],"terminationGracePeriodSeconds":30,"nodeName":"node1",
"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},
{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],
"volumes":[{"name":"stage","emptyDir":{"sizeLimit":"1Gi"}}],
"initContainers":[{"name":"stage","image":"proctor:1","env":[{"name":"A","value":"b"}],"resources":{},"volumeMounts":[{"name":"stage","mountPath":"/stage"}],
"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"},
{"name":"agent","image":"agent:1","resources":{"limits":{"memory":"1Gi"}}}],
"containers":[{"name":"seal","image":"proctor:1"}]},"status":{"phase":"Running","podIP":"10.0.0.1"}}`

// edit changes one place of filledIn: the path's last name gets the value, or
// goes where there is none.
func edit(t *testing.T, path string, value any) []byte {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(filledIn), &doc); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(path, "/")
	at := any(doc)
	for _, p := range parts[:len(parts)-1] {
		switch v := at.(type) {
		case map[string]any:
			at = v[p]
		case []any:
			at = v[p[0]-'0']
		}
	}
	switch v := at.(type) {
	case map[string]any:
		if value == nil {
			delete(v, parts[len(parts)-1])
		} else {
			v[parts[len(parts)-1]] = value
		}
	case []any:
		v[parts[len(parts)-1][0]-'0'] = value
	default:
		t.Fatalf("no %s", path)
	}
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type object = map[string]any

// TestDifferences: a Pod is exactly what was asked, and what API servers are
// known to add to it.
func TestDifferences(t *testing.T) {
	if all, err := differences([]byte(askedPod), []byte(filledIn)); err != nil || len(all) > 0 {
		t.Fatalf("what every API server adds: %q, %v", all, err) // the positive control
	}
	for name, tc := range map[string]struct {
		path  string
		value any
	}{
		"another container":           {"spec/containers", []any{object{"name": "seal", "image": "proctor:1"}, object{"name": "x", "image": "x"}}},
		"another init container":      {"spec/initContainers", []any{object{"name": "x", "image": "x"}}},
		"an ephemeral container":      {"spec/ephemeralContainers", []any{object{"name": "debugger", "image": "x"}}},
		"another image":               {"spec/initContainers/1/image", "agent:2"},
		"another volume":              {"spec/volumes", []any{object{"name": "stage", "emptyDir": object{"sizeLimit": "1Gi"}}, object{"name": "token", "projected": object{}}}},
		"a volume of another kind":    {"spec/volumes/0/hostPath", object{"path": "/"}},
		"another mount":               {"spec/initContainers/1/volumeMounts", []any{object{"name": "stage", "mountPath": "/x"}}},
		"another environment entry":   {"spec/initContainers/1/env", []any{object{"name": "LD_PRELOAD", "value": "x"}}},
		"another value":               {"spec/initContainers/0/env/0/value", "c"},
		"environment from elsewhere":  {"spec/initContainers/1/envFrom", []any{object{"secretRef": object{"name": "proctor-root"}}}},
		"a token":                     {"spec/automountServiceAccountToken", true},
		"no word on the token":        {"spec/automountServiceAccountToken", nil},
		"the host's network":          {"spec/hostNetwork", true},
		"one process namespace":       {"spec/shareProcessNamespace", true},
		"root":                        {"spec/securityContext/runAsNonRoot", nil},
		"a group more":                {"spec/securityContext/supplementalGroups", []any{float64(0)}},
		"less memory":                 {"spec/initContainers/1/resources/limits/memory", "2Gi"},
		"a claim of a device":         {"spec/resourceClaims", []any{object{"name": "gpu"}}},
		"privileged":                  {"spec/initContainers/1/securityContext", object{"privileged": true}},
		"a hook":                      {"spec/initContainers/1/lifecycle", object{"postStart": object{"exec": object{"command": []any{"x"}}}}},
		"another service account":     {"spec/serviceAccountName", "admin"},
		"another priority":            {"spec/priority", float64(1000)},
		"another toleration":          {"spec/tolerations", []any{object{"operator": "Exists"}}},
		"another restart policy":      {"spec/restartPolicy", "Always"},
		"an annotation that commands": {"metadata/annotations", object{"container.apparmor.security.beta.kubernetes.io/agent": "unconfined"}},
		"another label":               {"metadata/labels/injected", "true"},
		"an owner":                    {"metadata/ownerReferences", []any{object{"kind": "Job"}}},
		"a finalizer":                 {"metadata/finalizers", []any{"x"}},
		"a pull secret with more":     {"spec/imagePullSecrets", []any{object{"name": "registry", "mount": "/x"}}},
		"a field of the future":       {"spec/newThing", object{"on": true}},
		"a message path elsewhere":    {"spec/initContainers/1/terminationMessagePath", "/stage/x"},
	} {
		if all, err := differences([]byte(askedPod), edit(t, tc.path, tc.value)); err != nil || len(all) == 0 {
			t.Errorf("%s: not noticed (%v)", name, err)
		}
	}
}
