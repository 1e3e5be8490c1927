// Package pod writes a chain as a Kubernetes Pod: pure, from values to objects.
//
// The kubelet keeps the order: every step but the last is an init container,
// serve is one that goes on (a native sidecar with a startup probe), and seal is
// the Pod's only container, but for a launcher's send. Any container that does not end well ends the Pod
// before seal, and then there is no seal: proctor-agent ends with 0 whatever its
// command did, so that a failing agent or check is judged and not lost.
//
// What a Pod of this package promises: every container passes the restricted
// Pod Security Standard, has a read-only root, the runtime's seccomp filter, no
// capability, no service account's token, no environment but its own. Agent,
// checks and reader are uid 64001, the supervisor's steps uid 64003. A volume is
// mounted into the containers that chain names for it and into no other. The
// root key is a Secret, in open and seal alone.
//
// What it does not: the containers share the Pod's network, so whatever a
// supervisor reached the agent would reach too; a chain with a step that leads
// outside is refused unless that was waived (SharedNetwork). A Pod cannot bound the processes of one container; the
// node may (podPidsLimit). Exit statuses are reported from inside. The volumes'
// roots are writable by everybody in the Pod who mounts them (emptyDir is 2777
// with an fsGroup), so nothing is shared but what is meant to be.
//
// # For a client
//
//   - Build, apply, and hold what the API server returns against what was asked:
//     admission may add tolerations, a node name, priority and defaults, and
//     anything else is a refusal. status.*Statuses[].volumeMounts says what
//     recursiveReadOnly IfPossible became.
//   - A session with chain.Launched has no claim: stage takes the product off its
//     standard input, and send runs beside seal. Without one, seal's log begins with
//     the envelope itself.
//   - seal's termination message is one line of JSON, wire.ChainEnd: verdict and
//     the digest of the envelope.
//     Everybody else's termination message is that container's own word: an
//     agent can write what it likes into its own.
//   - A Pod that is Failed has no seal, except by the exit status of the
//     container "seal": 1 is the verdict FAIL, 3 INDETERMINATE or none. No
//     termination message: none was sealed.
//   - An agent or check in whose container the kernel ended a process for want of
//     memory is terminated with reason OOMKilled, with status 0 too. The kubelet
//     starts nothing after it and ends serve, but the Pod stays Pending until its
//     deadline: look at the reason, and delete the Pod.
//   - serve restarts when it dies (restartPolicy Always is what makes a sidecar):
//     the new one refuses, so a restart count above 0 is INDETERMINATE.
//   - With Keep, ledger and seals are claims, and a later Pod finds them.
package pod
