// Package store is the memory: the journal of every release, with
// compare-and-set, and the inbox of commands that wait for the engine.
//
// A record is one document of JSON (see document.go), kept as bytes and never as
// pointers, so that what is read is what was written and nothing else. The
// engine alone saves; the front door creates releases and appends commands.
// Who wins when both write is decided by the record's version.
//
// [Memory] keeps the documents in the process, for the demo and for tests.
// [ConfigMaps] keeps them in a cluster, for any number of processes, and asks it
// for get, list, watch, create, update and delete on configmaps in one namespace.
// The contract test in contract_test.go says what every store must do, whatever
// it keeps its documents in; testdata has records of every layout that was ever
// written, which must be readable for ever.
package store
