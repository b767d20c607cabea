package fleet

import (
	"context"
	"slices"

	"browserhost"
)

// ProviderStatus says what one provider can do here. A bit is true only after
// discovery proved that there is a browser to run (S3.13); the path of that
// browser is not part of it (S3.15).
type ProviderStatus struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Location     string            `json:"location"`
	Version      string            `json:"version,omitzero"`
	State        browserhost.State `json:"state"`
	Runnable     bool              `json:"runnable"`
	Why          string            `json:"why,omitzero"` // when it is not runnable
	Observe      bool              `json:"browser_observe"`
	Control      bool              `json:"browser_control"`
	Launch       bool              `json:"browser_launch"`
	Display      []string          `json:"display"`
	Capabilities []string          `json:"capabilities"`
}

// Providers lists the providers as an actor may use them: for an agent a bit
// also needs the scope.
func (f *Fleet) Providers(ctx context.Context, actor browserhost.Actor) []ProviderStatus {
	out := []ProviderStatus{}
	may := func(s browserhost.Scope) bool { return actor.Kind != browserhost.Agent || actor.Has(s) }
	for _, p := range f.opts.Providers {
		m := p.Manifest()
		d := p.Discover(ctx)
		st := ProviderStatus{
			ID: m.ID, Name: m.Name, Location: m.Location, Version: d.Version, State: f.state(m.ID), Runnable: d.Runnable, Why: d.Why,
			Observe:      d.Runnable && may(browserhost.ScopeRead),
			Control:      d.Runnable && may(browserhost.ScopeControl),
			Launch:       d.Runnable && may(browserhost.ScopeLaunch),
			Display:      m.Display,
			Capabilities: append([]string{}, names(m.Capabilities)...),
		}
		out = append(out, st)
	}
	return out
}

// InstanceStatus is one browser as the owner sees it. A provider without one
// is listed as absent (AIP-63 L1).
type InstanceStatus struct {
	Provider string            `json:"provider"`
	State    browserhost.State `json:"state"`
	Reason   string            `json:"reason,omitzero"`
	Headed   bool              `json:"headed"`
	BootID   string            `json:"bootId,omitzero"`
	Since    string            `json:"since,omitzero"` // when it became healthy
	Sessions int               `json:"sessions"`
	Pages    int               `json:"pages"`
}

// Status lists every instance. It asks no browser for anything (AIP-63 L4).
func (f *Fleet) Status(context.Context) []InstanceStatus {
	out := []InstanceStatus{}
	for _, p := range f.opts.Providers {
		id := p.Manifest().ID
		known := f.instancesOf(id)
		if len(known) == 0 {
			out = append(out, InstanceStatus{Provider: id, State: browserhost.Absent})
		}
		for _, i := range known {
			out = append(out, i.status())
		}
	}
	return out
}

func (i *instance) status() InstanceStatus {
	i.mu.Lock()
	defer i.mu.Unlock()
	st := InstanceStatus{Provider: i.key.provider, Headed: i.key.headed, State: i.state, Reason: i.reason}
	if i.run == nil {
		return st
	}
	st.BootID, st.Since = i.run.browser.BootID(), browserhost.FormatTime(i.run.began)
	i.fleet.mu.Lock()
	defer i.fleet.mu.Unlock()
	for _, d := range i.fleet.devices {
		for _, s := range d.sessions {
			if s.run == i.run {
				st.Sessions++
				st.Pages += len(s.pages)
			}
		}
	}
	return st
}

// state is that of the provider's liveliest instance.
func (f *Fleet) state(provider string) browserhost.State {
	order := []browserhost.State{browserhost.Healthy, browserhost.Degraded, browserhost.Starting, browserhost.Stopping, browserhost.CrashLooping, browserhost.Stopped, browserhost.Absent}
	best := len(order) - 1
	for _, i := range f.instancesOf(provider) {
		i.mu.Lock()
		best = min(best, slices.Index(order, i.state))
		i.mu.Unlock()
	}
	return order[best]
}

func (f *Fleet) instancesOf(provider string) []*instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*instance
	for k, i := range f.instances {
		if k.provider == provider {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b *instance) int { return a.key.compare(b.key) })
	return out
}

// runs reports whether the instance runs, so that no discovery is needed.
func (i *instance) runs() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.run != nil
}

// Starts reports whether a launch with these arguments would start a process
// now: what runs already is only joined, and costs nobody a browser (K38).
func (f *Fleet) Starts(call *browserhost.Call) bool {
	p, err := f.provider(call.Args.Provider)
	if err != nil {
		return false
	}
	return !f.instance(p, call.Args.Headed).runs()
}

// provider finds a provider by id, the first one for "".
func (f *Fleet) provider(id string) (browserhost.Provider, error) {
	for _, p := range f.opts.Providers {
		if id == "" || p.Manifest().ID == id {
			return p, nil
		}
	}
	if id == "" {
		return nil, browserhost.Errorf(browserhost.CodeNotReady, "this host has no browser provider").
			With("state", string(browserhost.Absent)).State(browserhost.NotStarted)
	}
	return nil, browserhost.Errorf(browserhost.CodeInputInvalid, "provider: is none of observe targets").With("field", "provider").State(browserhost.NotStarted)
}

// sessions lists a device's sessions by age.
func (f *Fleet) sessions(id browserhost.DeviceID) []*session {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, ok := f.devices[id]
	if !ok {
		return nil
	}
	var out []*session
	for _, s := range d.sessions {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *session) int { return a.opened.Compare(b.opened) })
	return out
}

// sites are the granted sites of a session, nil for an anonymous one.
func (f *Fleet) sites(s *session) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(s.domains)
}
