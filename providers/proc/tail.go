package proc

import (
	"bytes"
	"strings"
	"sync"
)

const (
	maxTail  = 16 << 10 // bytes
	maxLines = 20
)

// tail keeps the end of a stream.
type tail struct {
	mu  sync.Mutex
	buf []byte
	cut bool // the first line has lost its beginning
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - maxTail; over > 0 {
		t.cut = t.buf[over-1] != '\n'
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(b), nil
}

// lines are the last whole lines; half a line is better than none.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.buf
	if end := bytes.IndexByte(text, '\n'); t.cut && end >= 0 && end+1 < len(text) {
		text = text[end+1:]
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			all = append(all, line)
		}
	}
	return all[max(0, len(all)-maxLines):]
}
