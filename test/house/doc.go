// Package house holds the tests of the house itself: who may import whom, that
// the pure rooms stay pure, what the binary weighs, that every room says what it
// is for, and that the documents tell the truth about files and links.
//
// The rules are those of ARCHITECTURE.md. The linter knows them too
// (.golangci.yml) and answers sooner, in an editor; what stands here is what
// holds, also through the packages in between.
package house
