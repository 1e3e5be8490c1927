// Package kubernetes runs whole sessions as Pods, by the API server alone: it
// creates a Pod, holds what the API server made of it against what was asked,
// follows it, carries bytes in and out by attach, and removes it. The order of a
// session's steps is the kubelet's; what runs in it is sandbox/chain's.
//
// What the API server has that was not asked is known from a table (known.go);
// anything else is a refusal before the product leaves the host, and later a
// problem that the session's seal is told of.
package kubernetes
