// Package display prepares untrusted text for people and for shells: visible,
// reversible escapes first, shell quoting second.
//
// It defends against terminal escapes, bidirectional marks, forged lines and
// CI workflow commands in text that an agent chose. It does not judge whether
// the text is true.
package display
