// Package demo runs the demo's scenarios as a user would: it builds the
// binaries, starts them, and reads exit code, standard output and standard
// error.
//
// The tests take minutes of real time, so they are behind the build tag
// scenarios; `make scenarios` runs them. They know nothing of the code inside:
// what they decode is what is documented for users.
package demo
