package cdp

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"strings"

	"browserhost"

	cdproto "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	pagecmd "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// event hears what the browser says about the page, on the reading goroutine.
func (p *page) event(method string, params jsontext.Value) {
	switch method {
	case pagecmd.FrameNavigated.Method:
		on(pagecmd.FrameNavigated, params, p.navigated)
	case pagecmd.FrameStartedNavigating.Method:
		on(pagecmd.FrameStartedNavigating, params, p.departing)
	case pagecmd.FrameStoppedLoading.Method:
		on(pagecmd.FrameStoppedLoading, params, p.stopped)
	case pagecmd.NavigatedWithinDocument.Method:
		on(pagecmd.NavigatedWithinDocument, params, p.moved)
	case pagecmd.LifecycleEvent.Method:
		on(pagecmd.LifecycleEvent, params, p.reached)
	case pagecmd.JavascriptDialogOpening.Method:
		on(pagecmd.JavascriptDialogOpening, params, p.dialogOpened)
	case pagecmd.JavascriptDialogClosed.Method:
		p.change(func() { p.dialog = nil })
	case network.RequestWillBeSent.Method:
		on(network.RequestWillBeSent, params, p.asked)
	case network.ResponseReceived.Method:
		on(network.ResponseReceived, params, p.answered)
	case network.LoadingFinished.Method:
		on(network.LoadingFinished, params, func(e network.EventLoadingFinished) { p.settled(e.RequestID) })
	case network.LoadingFailed.Method:
		on(network.LoadingFailed, params, func(e network.EventLoadingFailed) { p.settled(e.RequestID) })
	case runtime.ExecutionContextCreated.Method:
		on(runtime.ExecutionContextCreated, params, p.worldMade)
	case runtime.ExecutionContextDestroyed.Method:
		on(runtime.ExecutionContextDestroyed, params, func(e runtime.EventExecutionContextDestroyed) { p.worldGone(e.ExecutionContextUniqueID) })
	case runtime.ExecutionContextsCleared.Method:
		p.worldGone("")
	}
}

// departing notes that the main frame is on its way to another document.
func (p *page) departing(e pagecmd.EventFrameStartedNavigating) {
	switch e.NavigationType {
	case pagecmd.FrameStartedNavigatingNavigationTypeSameDocument, pagecmd.FrameStartedNavigatingNavigationTypeHistorySameDocument:
		return
	}
	p.mu.Lock()
	main := e.FrameID == p.frame
	p.mu.Unlock()
	if main {
		p.change(func() { p.heading = e.LoaderID })
	}
}

// stopped notes that the main frame goes nowhere any more.
func (p *page) stopped(e pagecmd.EventFrameStoppedLoading) {
	p.mu.Lock()
	main := e.FrameID == p.frame
	p.mu.Unlock()
	if main {
		p.change(func() { p.heading = "" })
	}
}

// document is one loaded document and how far it got.
type document struct {
	loader    cdproto.LoaderID
	dom, load bool
}

// navigated notes a new document in the main frame. One of a scheme that no
// agent may name is left at once, whoever led there (S3.28).
func (p *page) navigated(e pagecmd.EventFrameNavigated) {
	f := e.Frame
	if f == nil || f.ParentID != "" {
		return
	}
	p.change(func() {
		p.frame = f.ID
		p.url = clipBytes(shownURL(f), browserhost.MaxURL)
		if f.LoaderID == p.doc.loader {
			return
		}
		// The walker's world is not touched here: a document that comes back from
		// the browser's memory tells of its world first and of itself second.
		back := e.Type == pagecmd.NavigationTypeBackForwardCacheRestore
		p.doc = document{loader: f.LoaderID, dom: back, load: back} // it was loaded before
		p.dialog = nil
		if p.heading == f.LoaderID {
			p.heading = ""
		}
		status, ok := p.statuses[f.LoaderID]
		clear(p.statuses)
		if ok {
			p.statuses[f.LoaderID] = status
		}
		started, ok := p.inflight[network.RequestID(f.LoaderID)]
		clear(p.inflight)
		if ok {
			p.inflight[network.RequestID(f.LoaderID)] = started
		}
	})
	if !mayShow(f.URL) {
		p.session.post(cmd(pagecmd.Navigate, pagecmd.NavigateParams{URL: "about:blank"}))
	}
}

// shownURL is what an address bar would show: for an error page the address
// that could not be reached.
func shownURL(f *cdproto.Frame) string {
	if f.UnreachableURL != "" {
		return f.UnreachableURL
	}
	return f.URL + f.URLFragment
}

// mayShow reports whether a page may stay at a URL.
func mayShow(url string) bool {
	scheme, _, _ := strings.Cut(url, ":")
	switch scheme {
	case "http", "https", "about", "chrome-error", "":
		return true
	}
	return false
}

// moved notes another address of the same document.
func (p *page) moved(e pagecmd.EventNavigatedWithinDocument) {
	p.change(func() {
		if e.FrameID == p.frame {
			p.url = clipBytes(e.URL, browserhost.MaxURL)
		}
	})
}

// reached notes how far the main document got.
func (p *page) reached(e pagecmd.EventLifecycleEvent) {
	if e.Name != "DOMContentLoaded" && e.Name != "load" {
		return
	}
	p.change(func() {
		if e.FrameID != p.frame || e.LoaderID != p.doc.loader {
			return
		}
		p.doc.dom = true
		p.doc.load = p.doc.load || e.Name == "load"
	})
}

// dialogOpened notes a dialog. It is never answered here.
func (p *page) dialogOpened(e pagecmd.EventJavascriptDialogOpening) {
	p.change(func() {
		p.dialog = &browserhost.Dialog{Type: string(e.Type), Message: clipBytes(e.Message, browserhost.MaxNodeText)}
	})
}

// asked notes a request that the page waits for before it has settled.
func (p *page) asked(e network.EventRequestWillBeSent) {
	switch e.Type {
	case network.ResourceTypeDocument, network.ResourceTypeStylesheet, network.ResourceTypeScript,
		network.ResourceTypeXHR, network.ResourceTypeFetch:
	default:
		return // pictures come when they come, streams never end
	}
	p.change(func() {
		if _, redirected := p.inflight[e.RequestID]; redirected || len(p.inflight) >= maxInflight {
			return
		}
		p.requests++
		p.inflight[e.RequestID] = p.requests
	})
}

// answered notes the status of a main document.
func (p *page) answered(e network.EventResponseReceived) {
	if e.Type != network.ResourceTypeDocument || e.Response == nil {
		return
	}
	p.change(func() {
		if e.FrameID == p.frame && len(p.statuses) < maxInflight {
			p.statuses[e.LoaderID] = int(e.Response.Status)
		}
	})
}

func (p *page) settled(id network.RequestID) {
	p.change(func() { delete(p.inflight, id) })
}

// worldMade notes the walker's world of the main document. Its unique id holds
// across processes, where the plain one is given out again.
func (p *page) worldMade(e runtime.EventExecutionContextCreated) {
	if e.Context == nil || e.Context.Name != walkerWorld {
		return
	}
	var aux struct {
		FrameID cdproto.FrameID `json:"frameId"`
		Type    string          `json:"type"`
	}
	if json.Unmarshal(e.Context.AuxData, &aux, lenient) != nil || aux.Type != "isolated" {
		return
	}
	p.change(func() {
		if aux.FrameID == p.frame {
			p.worldID = e.Context.UniqueID
		}
	})
}

// worldGone notes the end of one world, or of all.
func (p *page) worldGone(id string) {
	p.change(func() {
		if id == "" || id == p.worldID {
			p.worldID = ""
		}
	})
}
