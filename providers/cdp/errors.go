package cdp

import "errors"

// errDocumentGone reports that the document an expression ran in was replaced
// meanwhile. An agent sees it as CodeStaleElement.
var errDocumentGone = errors.New("cdp: the document was replaced")
