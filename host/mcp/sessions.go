package mcp

import (
	"slices"
	"sync"

	"browserhost"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxSessions is how many sessions one device may hold. A client that
// restarts without a farewell leaves one behind; the one that rested longest
// makes room for a new one.
const maxSessions = 16

// sessions knows whose sessions are open, in the order of their last use.
type sessions struct {
	mu sync.Mutex
	of map[browserhost.DeviceID][]*entry
}

// entry is one session and how many calls are at work in it.
type entry struct {
	session *sdk.ServerSession
	busy    int
}

// opened notes a new session beside those that live, and returns the one to
// close for it, nil when there is room. One in which a call is at work is
// closed only when there is no other.
func (s *sessions) opened(device browserhost.DeviceID, session *sdk.ServerSession, live []*sdk.ServerSession) (old *sdk.ServerSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[browserhost.DeviceID][]*entry{}
	}
	for d, list := range s.of {
		s.of[d] = slices.DeleteFunc(list, func(e *entry) bool { return !slices.Contains(live, e.session) })
		if len(s.of[d]) == 0 {
			delete(s.of, d)
		}
	}
	list := s.of[device]
	if len(list) >= maxSessions {
		i := max(0, slices.IndexFunc(list, func(e *entry) bool { return e.busy == 0 }))
		old = list[i].session
		list = slices.Delete(list, i, i+1)
	}
	s.of[device] = append(list, &entry{session: session})
	return old
}

// used notes that a call begins (1) or ends (-1) in a session, or that another
// message came (0).
func (s *sessions) used(device browserhost.DeviceID, session *sdk.ServerSession, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.of[device]
	if i := slices.IndexFunc(list, func(e *entry) bool { return e.session == session }); i >= 0 {
		e := list[i]
		e.busy += calls
		copy(list[i:], list[i+1:])
		list[len(list)-1] = e
	}
}
