// Package drain is the judge of quiet: from what was seen of a track that no
// longer has a share it says whether anything is still running there.
//
// It is pure. Its one door is [Judge], which takes a policy, the looks so far
// and the time, and answers with a [State]. A track is quiet when no new
// requests arrived over a window in which its old share would have brought
// some, when nothing is in flight on two successive looks, and when every live
// pod was seen. What cannot be seen is waited out and called [Assumed]; what
// does not end in time is called [Forced], with the number of requests cut.
// A missing signal is never a zero.
package drain
