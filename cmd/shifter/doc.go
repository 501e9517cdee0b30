// Command shifter moves traffic to a new version in steps, on evidence, and goes
// back without dropping a request.
//
// This package is the fuse box: it reads flags, makes the clients and joins the
// rooms with fx. It is the one place that knows every room; nothing is decided
// here.
package main
