// Package asked compares what was asked of a container's maker with what it says
// that it made, field by field, also fields that this program does not know.
package asked
