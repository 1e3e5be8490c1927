// Package kubetest gives tests the cluster that scripts/kubernetes started:
//
//	scripts/kubernetes run go test -tags kubernetes ./sandbox/kubernetes/...
//
// A test that asks for it where there is none fails. Each test gets a namespace
// of its own, which the restricted Pod Security Standard is enforced in, so that
// the API server itself refuses a Pod that is weaker; it goes with the test.
package kubetest
