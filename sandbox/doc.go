// Package sandbox says what a container of a session is made of, and what an
// engine must do with it. It holds the types that every engine takes and
// reports, and the one comparison between what was asked and what was done.
//
// It defends against an engine that silently gives less than was asked: every
// security field of a Spec has a counterpart in a Report, and Compare refuses
// any difference. It does not defend against an engine daemon that lies.
package sandbox
