// Package strictjson is the one reader of JSON that is signed, stored or sent
// between steps.
//
// It defends against documents that two readers understand differently. The
// standard decoder matches keys without case, takes the last of two equal keys,
// replaces invalid UTF-8, ignores null for plain values, cuts or fills arrays
// and skips line breaks in base64; here each of these is an error, and so are
// unknown and missing fields, trailing data, and documents that are too deep or
// too large. A field is required unless its tag says omitempty or omitzero.
//
// NewForeign's reader is for documents that this project does not define (a
// package registry's, a lock file): it passes over unknown fields and keeps all
// other rules.
//
// It does not judge what a value means. A type with its own UnmarshalJSON or
// UnmarshalText sees text that is well-formed and free of duplicate keys, no
// more. Null stays allowed for pointers, slices, maps and interfaces.
//
//	var req wire.OpenRequest
//	if err := strictjson.Unmarshal(line, &req, strictjson.Limits{Size: wire.MaxLine}); err != nil {
//		return fmt.Errorf("read open request: %w", err)
//	}
package strictjson
