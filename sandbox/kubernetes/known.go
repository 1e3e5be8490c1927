package kubernetes

import (
	"reflect"
	"strings"
)

// anything is a value that the API server alone decides.
type anything struct{}

// known reports whether an API server, its scheduler or its own admission is
// known to fill in a field that nobody asked for, with this value. A list's
// element has the path of its list and [].
func known(path string, got any) bool {
	if rest, ok := strings.CutPrefix(path, ".metadata.annotations."); ok {
		return ofNetwork(rest)
	}
	if rest, ok := anyContainer(path); ok {
		path = rest
	}
	want, ok := additions()[path]
	if !ok {
		if m, isMap := got.(map[string]any); isMap { // its fields may be
			return len(m) > 0 && allKnown(path, m)
		}
		if l, isList := got.([]any); isList {
			return len(l) > 0 && eachKnown(path, l)
		}
		return false
	}
	if _, free := want.(anything); free {
		return true
	}
	return reflect.DeepEqual(want, got)
}

func allKnown(path string, m map[string]any) bool {
	for k, v := range m {
		if !empty(v) && !known(path+"."+k, v) {
			return false
		}
	}
	return true
}

func eachKnown(path string, l []any) bool {
	for _, v := range l {
		if !known(path+"[]", v) {
			return false
		}
	}
	return true
}

// anyContainer makes one path of containers and init containers. An ephemeral
// container is never known.
func anyContainer(path string) (string, bool) {
	for _, kind := range []string{".spec.containers[].", ".spec.initContainers[]."} {
		if rest, ok := strings.CutPrefix(path, kind); ok {
			return "container." + rest, true
		}
	}
	return "", false
}

// ofNetwork are the annotations in which a network plugin writes down the
// address that it gave.
func ofNetwork(name string) bool {
	switch name {
	case "cni.projectcalico.org/containerID", "cni.projectcalico.org/podIP", "cni.projectcalico.org/podIPs",
		"k8s.v1.cni.cncf.io/network-status", "k8s.ovn.org/pod-networks":
		return true
	}
	return false
}

// additions are the fields and what they are filled in with.
func additions() map[string]any {
	tolerated := func(key string) map[string]any {
		return map[string]any{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": float64(300)}
	}
	return map[string]any{
		".metadata.uid":               anything{},
		".metadata.namespace":         anything{}, // the one that was asked in the request's path
		".metadata.creationTimestamp": anything{},
		".metadata.resourceVersion":   anything{},
		".metadata.generation":        anything{},
		".metadata.managedFields":     anything{},

		".spec.nodeName":                      anything{}, // the scheduler's
		".spec.imagePullSecrets[].name":       anything{}, // the service account's: the kubelet's alone, in no container
		".spec.schedulerName":                 "default-scheduler",
		".spec.serviceAccount":                "default",
		".spec.serviceAccountName":            "default",
		".spec.priority":                      float64(0),
		".spec.preemptionPolicy":              "PreemptLowerPriority",
		".spec.dnsPolicy":                     "ClusterFirst",
		".spec.terminationGracePeriodSeconds": float64(30),
		".spec.tolerations": []any{
			tolerated("node.kubernetes.io/not-ready"), tolerated("node.kubernetes.io/unreachable"),
		},

		"container.terminationMessagePath":        "/dev/termination-log",
		"container.terminationMessagePolicy":      "File",
		"container.startupProbe.timeoutSeconds":   float64(1),
		"container.startupProbe.periodSeconds":    float64(10),
		"container.startupProbe.successThreshold": float64(1),
		"container.startupProbe.failureThreshold": float64(3),
	}
}
