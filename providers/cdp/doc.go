// Package cdp is the engine that drives a Chrome-family browser over the
// Chrome DevTools Protocol.
//
// It has three layers. [Conn] speaks frames: JSON objects ended by a zero byte,
// both ways over one pipe; commands are pipelined and keep their order.
// [Browser] owns what the host opened: isolated contexts and their pages, and
// nothing else; a page that is not in one of its contexts is closed. A context
// is a browserhost.Driver and a page is a browserhost.Page: navigation, input,
// pictures, and snapshots taken by a walker in an isolated world.
//
// The protocol's names and types come from cdproto; the three hot results
// (snapshot, picture, frame) stay raw JSON (K39). No text of the protocol, no
// target id and no endpoint reaches an error that an agent may see.
package cdp
