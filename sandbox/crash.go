package sandbox

// Crash is told of a panic in a goroutine other than main's, and does not
// return. Such a panic cannot be recovered in main, and would end the process
// with Go's own status 2, which here means that nothing was started. nil leaves
// a panic as it is.
type Crash func(value any)

// Guard is f with its panics told. Every goroutine of the launcher's process
// starts as one: go crash.Guard(f)().
func (c Crash) Guard(f func()) func() {
	return func() {
		if c != nil {
			defer func() {
				if p := recover(); p != nil {
					c(p)
				}
			}()
		}
		f()
	}
}
