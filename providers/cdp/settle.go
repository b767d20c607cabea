package cdp

import (
	"context"
	"fmt"
	"time"

	"browserhost"
)

// Why an act is over.
const (
	settledQuiet     = "quiet"
	settledNavigated = "navigated"
	settledDialog    = "dialog"
	settledTime      = "time"
)

// quiet waits in the walker's world until nothing in the document has changed
// for two frames, and gives true; a hidden document has no frames and gets
// 100 ms instead. A page that never rests is left after
// [browserhost.SettleTime], with false.
var quiet = fmt.Sprintf(`new Promise((resolve) => {
  let frames, timer;
  const end = (rested) => { watcher.disconnect(); clearTimeout(timer); frames = Infinity; resolve(rested); };
  const rest = () => { frames = 0; clearTimeout(timer); timer = setTimeout(end, 100, true); };
  const frame = () => { if (frames === Infinity) return; if (++frames > 2) end(true); else requestAnimationFrame(frame); };
  const watcher = new MutationObserver(rest);
  watcher.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  rest();
  requestAnimationFrame(frame);
  setTimeout(end, %d, false);
})`, browserhost.SettleTime.Milliseconds())

// settle waits until the page has come to rest after an act: a new document is
// loaded, a dialog is open, or neither the document nor the network has
// anything going on that the act began. It never takes longer than
// [browserhost.SettleTime].
func (p *page) settle(ctx context.Context, m moment) browserhost.Settle {
	ctx, cancel := context.WithTimeout(ctx, browserhost.SettleTime)
	defer cancel()
	stable, reason := p.rest(ctx, m)
	return browserhost.Settle{Stable: stable, WaitedMS: time.Since(m.began).Milliseconds(), Reason: reason}
}

func (p *page) rest(ctx context.Context, m moment) (stable bool, reason string) {
	for {
		p.mu.Lock()
		changed, before := p.changed, p.requests
		navigated := p.doc.loader != m.loader || p.heading != ""
		loaded := p.heading == "" && p.doc.load
		held, busy := p.dialog != nil, p.busy(m.requests)
		p.mu.Unlock()
		switch {
		case held:
			return false, settledDialog
		case navigated && loaded:
			return true, settledNavigated
		case navigated || busy:
			select {
			case <-changed:
			case <-p.gone:
				return false, settledNavigated
			case <-ctx.Done():
				if navigated {
					return false, settledNavigated
				}
				return false, settledTime
			}
			continue
		}
		rested, err := p.evaluate(ctx, quiet, browserhost.SettleTime)
		p.mu.Lock()
		still := p.doc.loader == m.loader && p.heading == "" && p.dialog == nil && p.requests == before && !p.busy(m.requests)
		p.mu.Unlock()
		switch {
		case err == nil && still && string(rested) == "true":
			return true, settledQuiet
		case ctx.Err() != nil || err == nil && still:
			return false, settledTime
		}
		if p.isGone() {
			return false, settledNavigated
		}
		if err != nil && still { // the document cannot be watched; it has no other way to come to rest
			select {
			case <-changed:
			case <-p.gone:
			case <-ctx.Done():
			}
		}
	}
}

// busy reports whether a request is unanswered that started after the given
// number of them, with p.mu held.
func (p *page) busy(after int) bool {
	for _, n := range p.inflight {
		if n > after {
			return true
		}
	}
	return false
}

// effect is what could be measured after an act that was completed.
func (p *page) effect(ctx context.Context, m moment) browserhost.Effect {
	e := browserhost.Effect{Settle: p.settle(ctx, m)}
	p.mu.Lock()
	defer p.mu.Unlock()
	e.Dialog = p.dialog
	for _, child := range p.children {
		if child.n > m.births && !child.page.isGone() {
			e.NewPages = append(e.NewPages, child.page)
		}
	}
	return e
}
