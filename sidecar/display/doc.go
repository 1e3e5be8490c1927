// Package display prepares untrusted text for people and for shells: visible,
// reversible escapes first, shell quoting second.
//
// Escape makes one line of any bytes. Quote and Command make text that sh takes
// apart into exactly the words that went in. Lines relays an agent's output,
// line by line, with a prefix. Duration, Size, Count and Age write numbers the
// way that every verb shows them.
//
// It defends against terminal escapes, bidirectional and invisible characters,
// forged lines and CI workflow commands in text that an agent chose, and against
// a printed command that does more than it shows. It does not judge whether
// the text is true, does not cut text to a width, and does not prepare text for
// Markdown, HTML or SARIF, which have rules of their own.
//
//	fmt.Fprintf(w, "refused: %s\n", display.Escape(path))
//	fmt.Fprintf(w, "hint: %s\n", display.Command("proctor", "trust", "approve", path))
package display
