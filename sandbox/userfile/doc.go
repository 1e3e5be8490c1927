// Package userfile reads an image's own passwd(5) and group(5), in which runtimes
// look up a process's id also when it is given as a number.
package userfile
