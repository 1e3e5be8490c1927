// Package requests is what a refused agent may do: ask the operator, in its own
// words, and wait.
//
// A Book is one session's requests, as serve keeps them. There is one for each
// thing that is asked for; asking again for another content of the same file
// changes it, so that an answer to what was shown before does not fit any
// longer. Answers come from the ledger alone, which the agent cannot write.
//
// It defends against too many, too large and too frequent requests. It shows
// nothing: texts are the agent's, and are escaped where they are shown.
//
//	book := requests.NewBook(time.Now)
//	r, err := book.Ask(subject, "padding for the table")
package requests
