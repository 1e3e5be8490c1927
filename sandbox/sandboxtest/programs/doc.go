// Package programs is what tests of the real programs share: it builds what
// ships and puts a runtime beside it, waits for what a program prints, and looks
// for what a session has left on the host.
//
// It is for tests. It knows no engine's inside but where the engine local keeps
// its bundles and cgroups.
//
//	func TestMain(m *testing.M) {
//		os.Exit(programs.Main(m, programs.Build))
//	}
//
//	func TestX(t *testing.T) {
//		dir := programs.Need(t)
//	}
package programs
