// Package sandboxtest is the conformance suite that every sandbox.Engine
// passes: the container-level part of the design's invariants, tried with a
// static program (payload) that is built from source.
//
// What can be seen from the host is judged there: files outside the container,
// the kernel's view of the container's process, processes that must survive or
// must be gone. Beside each refusal stands the same act where it is allowed, so
// that a test cannot pass because the payload did not run.
//
// It does not test what is above an engine: which container gets which mount is
// the launcher's, and sandbox.Validate's.
//
// An engine's test makes a Fixture and hands it over:
//
//	func TestConformance(t *testing.T) {
//		sandboxtest.Run(t, sandboxtest.Fixture{
//			Engine: func(t testing.TB) sandbox.Engine {
//				e, err := local.New(local.Config{Home: home, State: state})
//				if err != nil { t.Fatal(err) }
//				return e
//			},
//			Hostile:    sandbox.Identity{Inside: 64001, Host: 2064001, HostRoot: 2000000},
//			Supervisor: sandbox.Identity{Inside: 64003, Host: 2164003, HostRoot: 2100000},
//			Image: func(t testing.TB, files []sandboxtest.File, _ sandboxtest.ImageConfig) sandbox.Image {
//				dir := t.TempDir()
//				sandboxtest.WriteFiles(t, dir, files)
//				return sandbox.Image{Kind: sandbox.ImageDir, Ref: dir}
//			},
//		})
//	}
//
// Run calls Engine once, and once more in a child process of the test binary
// that is killed (the lifeline's test): the child runs the same test function,
// with ChildEnv in its environment, and must find the same engine.
//
// Run needs root where the engine does. It leaves nothing behind and fails if
// the engine does: containers and volumes by Fixture.Leftovers, mounts and
// processes by looking at the host.
package sandboxtest
