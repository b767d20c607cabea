package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"

	"browserhost"
)

// Seed lends more to the signed-in sessions that a device has open; without
// one it does nothing. A session that does not know a new site yet is replaced
// at the next launch: its fence was fixed when its context was made.
func (f *Fleet) Seed(ctx context.Context, m browserhost.Material) (browserhost.Counts, error) {
	var total browserhost.Counts
	var errs error
	for _, place := range f.signedIn(m.Device) {
		counts, err := func() (browserhost.Counts, error) {
			if err := place.take(ctx); err != nil {
				return browserhost.Counts{}, err
			}
			defer place.give()
			f.mu.Lock()
			s := place.s
			f.mu.Unlock()
			if s == nil {
				return browserhost.Counts{}, nil
			}
			counts, _, err := f.widen(ctx, s, m)
			return counts, err
		}()
		errs = errors.Join(errs, err)
		total.Set += counts.Set
		for why, n := range counts.Refused {
			if total.Refused == nil {
				total.Refused = map[string]int{}
			}
			total.Refused[why] += n
		}
	}
	return total, errs
}

// widen lends material to a warm session whose turn the caller has. It returns
// the session, or nil when the session had to go because its context is fenced
// to fewer sites than are granted now.
func (f *Fleet) widen(ctx context.Context, s *session, m browserhost.Material) (browserhost.Counts, *session, error) {
	if !covered(f.sites(s), m.Domains) {
		_, err := f.close(ctx, s, goneWidened)
		return browserhost.Counts{}, nil, err
	}
	jar, ok := s.driver.(browserhost.CookieJar)
	if !ok {
		return browserhost.Counts{}, nil, unsupported("cookies")
	}
	counts, err := jar.SetCookies(ctx, m.Cookies)
	return counts, s, err
}

// Evict ends the signed-in sessions of a device, because of a revoke: its
// pages answer browser:target_gone with the reason from now on, its contexts
// are disposed of and read back as empty before Evict returns (AIP-63 C8).
// A context that would not close takes its browser with it. It does not depend
// on the caller's patience.
func (f *Fleet) Evict(ctx context.Context, device browserhost.DeviceID, reason string) (pages int, err error) {
	return f.evict(ctx, f.signedIn(device), reason)
}

// EvictDevice ends every session of a device, because it was unpaired (AIP-63 C13).
func (f *Fleet) EvictDevice(ctx context.Context, device browserhost.DeviceID, reason string) (pages int, err error) {
	return f.evict(ctx, f.places(device, func(slotKey) bool { return true }), reason)
}

func (f *Fleet) evict(ctx context.Context, places []*slot, reason string) (pages int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), browserhost.LaunchLimit)
	defer cancel()
	for _, place := range places {
		if takeErr := place.take(ctx); takeErr != nil {
			err = errors.Join(err, takeErr)
			continue
		}
		f.mu.Lock()
		s := place.s
		f.mu.Unlock()
		if s != nil {
			n, closeErr := f.close(ctx, s, reason)
			pages += n
			err = errors.Join(err, closeErr)
		}
		place.give()
	}
	return pages, err
}

func (f *Fleet) signedIn(device browserhost.DeviceID) []*slot {
	return f.places(device, func(k slotKey) bool { return k.signedIn })
}

// places lists the slots of a device, empty ones too: one of them may be
// opening at this moment.
func (f *Fleet) places(id browserhost.DeviceID, want func(slotKey) bool) []*slot {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, ok := f.devices[id]
	if !ok {
		return nil
	}
	var out []*slot
	for _, k := range slices.SortedFunc(maps.Keys(d.slots), func(a, b slotKey) int { return a.instance.compare(b.instance) }) {
		if want(k) {
			out = append(out, d.slots[k])
		}
	}
	return out
}
