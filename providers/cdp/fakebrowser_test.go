package cdp

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"testing"

	"browserhost"

	cdproto "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/cdproto/target"
)

// fakeBrowser is a browser that knows contexts, pages and cookies, and is as
// strict about commands as a careful one would be: a context without both
// halves of its proxy, a page without a window of its own, and a page that is
// let go before it is set up are defects. The serving goroutine
// touches what peer.mu does not guard.
type fakeBrowser struct {
	*peer
	contexts map[cdproto.BrowserContextID]bool
	targets  map[target.ID]cdproto.BrowserContextID // guarded by peer.mu, as made is
	jar      map[cdproto.BrowserContextID][]*network.Cookie
	made     int
	instead  map[string]func(o order) string // what a test puts in place of the rest; guarded by peer.mu
}

// newFake connects a Browser to a fake one. Both end with the test.
func newFake(t *testing.T) (*Browser, *fakeBrowser) {
	t.Helper()
	far, near := newPeer(t)
	f := &fakeBrowser{
		peer: far, contexts: map[cdproto.BrowserContextID]bool{"own": true}, targets: map[target.ID]cdproto.BrowserContextID{},
		jar: map[cdproto.BrowserContextID][]*network.Cookie{}, instead: map[string]func(order) string{},
	}
	served := make(chan struct{})
	go func() { defer close(served); f.run() }()
	b, err := NewBrowser(t.Context(), Dial(near))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(); <-served })
	return b, f
}

func (f *fakeBrowser) run() {
	for {
		o, ok := f.hear()
		if !ok {
			return
		}
		f.mu.Lock()
		answer, ok := f.instead[o.Method]
		f.mu.Unlock()
		if !ok {
			answer = f.take
		}
		if result := answer(o); result != "" {
			f.answer(o, result)
		}
	}
}

// put makes the browser answer a method otherwise.
func (f *fakeBrowser) put(method string, answer func(o order) string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instead[method] = answer
}

// given reads the parameters of a command, closed.
func given[P any](f *fakeBrowser, o order, _ P) P {
	var p P
	if err := json.Unmarshal(o.Params, &p, json.RejectUnknownMembers(true)); err != nil {
		f.t.Errorf("%s: %v", o.Method, err)
	}
	return p
}

// event says an event.
func (f *fakeBrowser) event(method, session, params string) {
	b, err := json.Marshal(map[string]any{"method": method, "sessionId": session, "params": jsontext.Value(params)})
	if err != nil {
		f.t.Error(err)
	}
	f.say(string(b))
}

// appear makes a page and tells of it.
func (f *fakeBrowser) appear(context cdproto.BrowserContextID, opener target.ID) target.ID {
	f.mu.Lock()
	f.made++
	id := target.ID(fmt.Sprintf("T%d", f.made))
	f.targets[id] = context
	f.mu.Unlock()
	f.event("Target.attachedToTarget", "", fmt.Sprintf(
		`{"sessionId":"S-%s","waitingForDebugger":true,"targetInfo":{"targetId":%q,"type":"page","title":"","url":"about:blank","attached":true,"canAccessOpener":false,"openerId":%q,"browserContextId":%q,"new":1}}`,
		id, id, opener, context))
	return id
}

const refusalAnswer = `{"code":-32602,"message":"refused"}`

// take is what a browser does about a command.
func (f *fakeBrowser) take(o order) string {
	switch o.Method {
	case "Target.setAutoAttach":
		if p := given(f, o, target.SetAutoAttachParams{}); !p.AutoAttach || !p.WaitForDebuggerOnStart || p.Flatten == nil || !*p.Flatten {
			f.t.Errorf("pages are not held back: %s", o.Params)
		}
	case "Target.createBrowserContext":
		p := given(f, o, target.CreateBrowserContextParams{})
		if p.ProxyServer == "" || p.ProxyBypassList != "<-loopback>" || p.DisposeOnDetach == nil || !*p.DisposeOnDetach {
			f.t.Errorf("a context that can go around its proxy: %s", o.Params)
		}
		f.mu.Lock()
		f.made++
		f.mu.Unlock()
		id := cdproto.BrowserContextID(fmt.Sprintf("C%d", f.made))
		f.contexts[id] = true
		return fmt.Sprintf(`{"browserContextId":%q}`, id)
	case "Target.getBrowserContexts":
		ids := []cdproto.BrowserContextID{}
		for id := range f.contexts {
			if id != "own" {
				ids = append(ids, id)
			}
		}
		b, _ := json.Marshal(ids)
		return fmt.Sprintf(`{"browserContextIds":%s,"defaultBrowserContextId":"own"}`, b)
	case "Target.disposeBrowserContext":
		id := given(f, o, target.DisposeBrowserContextParams{}).BrowserContextID
		if !f.contexts[id] || id == "own" {
			return refusalAnswer
		}
		delete(f.contexts, id)
		delete(f.jar, id)
	case "Target.createTarget":
		p := given(f, o, target.CreateTargetParams{})
		if p.URL != "about:blank" || p.NewWindow == nil || !*p.NewWindow || !f.contexts[p.BrowserContextID] {
			f.t.Errorf("a page without a window or a context: %s", o.Params)
		}
		return fmt.Sprintf(`{"targetId":%q}`, f.appear(p.BrowserContextID, ""))
	case "Target.closeTarget":
		id := given(f, o, target.CloseTargetParams{}).TargetID
		f.mu.Lock()
		_, ok := f.targets[id]
		delete(f.targets, id)
		f.mu.Unlock()
		if !ok {
			return refusalAnswer
		}
		f.event("Target.targetDestroyed", "", fmt.Sprintf(`{"targetId":%q}`, id))
		return `{"success":true}`
	case "Page.getFrameTree":
		return fmt.Sprintf(`{"frameTree":{"frame":{"id":%q,"loaderId":"L0","url":"about:blank"}}}`, o.SessionID[2:])
	case "Storage.setCookies":
		return f.store(given(f, o, storage.SetCookiesParams{}))
	case "Storage.getCookies":
		id := given(f, o, storage.GetCookiesParams{}).BrowserContextID
		if !f.contexts[id] {
			return `{"code":-32602,"message":"Failed to find browser context for id ` + string(id) + `"}`
		}
		b, _ := json.Marshal(storage.GetCookiesResult{Cookies: f.jar[id]})
		return string(b)
	case "Target.setDiscoverTargets", "Browser.setDownloadBehavior", "Page.enable", "Page.setLifecycleEventsEnabled", "Network.enable", "Runtime.enable",
		"Emulation.setFocusEmulationEnabled", "Emulation.setDeviceMetricsOverride", "Emulation.setScrollbarsHidden", "Page.setInterceptFileChooserDialog", "Runtime.runIfWaitingForDebugger",
		"Input.insertText", "Input.dispatchMouseEvent", "Input.dispatchKeyEvent":
	default:
		f.t.Errorf("nobody should say %s", o.Method)
		return `{"code":-32601,"message":"unknown"}`
	}
	return `{}`
}

// store keeps cookies as Chromium was measured to: some are refused, some are
// dropped without a word.
func (f *fakeBrowser) store(p storage.SetCookiesParams) string {
	if len(p.Cookies) != 1 {
		f.t.Errorf("%d cookies in one command: a bad one would take the others with it", len(p.Cookies))
		return refusalAnswer
	}
	c := p.Cookies[0]
	switch {
	case c.PartitionKey != nil && c.PartitionKey.TopLevelSite == "opaque":
		return refusalAnswer
	case c.SameSite == network.CookieSameSiteNone && !c.Secure:
		return `{}`
	}
	kept := &network.Cookie{Name: c.Name, Value: c.Value, Domain: c.Domain, Path: c.Path, PartitionKey: c.PartitionKey, Expires: c.Expires.Float64()}
	if c.Domain == "" {
		kept.Domain = hostOf(c.URL)
	}
	if c.Domain == ".co.uk" {
		kept.Domain = "co.uk"
	}
	f.jar[p.BrowserContextID] = append(f.jar[p.BrowserContextID], kept)
	return `{}`
}

// attachFake opens a context of a fake browser.
func attachFake(t *testing.T, b *Browser) *driver {
	t.Helper()
	d, err := b.Attach(t.Context(), browserhost.AttachOptions{Proxy: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	return d.(*driver)
}
