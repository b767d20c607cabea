package requests

import (
	"slices"
	"sync"
	"testing"
)

// Changed is told in order, one change at a time, and may answer on the spot.
func TestChanged(t *testing.T) {
	var q *Queue
	var told []string
	inside := 0
	q = open(t, Options{Changed: func(r Request) {
		inside++
		if inside != 1 {
			t.Error("told of two changes at once")
		}
		told = append(told, r.Domains[0]+" "+string(r.Status))
		if r.Status == Pending {
			if _, err := q.Decide(r.ID, Allowed, "grant_1"); err != nil {
				t.Error(err)
			}
		}
		inside--
	}})
	file(t, q, ada, "shop.test")
	file(t, q, ada, "bank.test")
	if want := []string{"shop.test pending", "shop.test allowed", "bank.test pending", "bank.test allowed"}; !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() { file(t, q, device(n+2), "shop.test") })
	}
	all.Wait()
	if r := q.List(); len(r) != 22 || slices.ContainsFunc(r, func(r Request) bool { return r.Status != Allowed }) {
		t.Errorf("%+v", r)
	}
}

// Whatever is asked, decided and taken back at once, every request ends in one
// way, and every waiter sees that end.
func TestRace(t *testing.T) {
	var mu sync.Mutex
	ends := map[string][]Status{}
	q := open(t, Options{Changed: func(r Request) {
		mu.Lock()
		defer mu.Unlock()
		ends[r.ID] = append(ends[r.ID], r.Status)
	}})
	var all sync.WaitGroup
	for n := range 30 {
		by := device(n)
		r := file(t, q, by, "shop.test")
		all.Go(func() { q.Decide(r.ID, Denied, "") })
		all.Go(func() { q.Decide(r.ID, Allowed, "grant_1") })
		all.Go(func() { q.WithdrawDevice(by.Device) })
		all.Go(func() {
			got, err := q.Wait(t.Context(), by.Device, r.ID)
			if err != nil || got.Status == Pending || (got.Status == Allowed) != (got.GrantID != "") {
				t.Errorf("%+v %v", got, err)
			}
		})
	}
	all.Wait()
	q.Close()
	mu.Lock()
	defer mu.Unlock()
	for id, told := range ends {
		if len(told) != 2 || told[0] != Pending || told[1] == Pending {
			t.Errorf("%s: %q", id, told)
		}
	}
}
