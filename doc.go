// Package browserhost holds the words of Browser Host: what a call is, who
// makes it, what a browser, a context and a page are, what a grant covers and
// what goes wrong. It imports only the standard library and does nothing by
// itself; every other package says what it does in these words.
//
// Read it in this order: [Call] and [Handler] (one verb, many wrappers),
// [Actor] (who asks), [Error] and its codes (what goes wrong), [Provider],
// [Instance], [Driver] and [Page] (what browses), [Grant] and [Material]
// (what the owner lends).
package browserhost
