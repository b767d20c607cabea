package cdp

import (
	"bufio"
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"io"
	"strconv"
)

// headBytes is how much of an oversize frame is kept to find out whose it is:
// Chromium writes the id first.
const headBytes = 512

// frames reads messages, each ended by a zero byte, from a pipe.
type frames struct {
	r   *bufio.Reader
	max int // bytes of one frame without its end
}

func newFrames(r io.Reader, max int) *frames {
	return &frames{r: bufio.NewReaderSize(r, 64<<10), max: max}
}

// next returns the next frame. The bytes are the caller's. A frame over the
// bound is read past and dropped; then oversize is true and frame holds its
// first bytes only. A frame that the stream breaks off is lost with it.
func (f *frames) next() (frame []byte, oversize bool, err error) {
	for {
		part, err := f.r.ReadSlice(0)
		if err == nil {
			part = part[:len(part)-1]
		}
		switch {
		case oversize:
		case len(frame)+len(part) > f.max:
			oversize = true
			frame = append(frame, part...)
			frame = bytes.Clone(frame[:min(len(frame), headBytes)])
		default:
			frame = append(frame, part...)
		}
		if err == nil {
			return frame, oversize, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, false, err
		}
	}
}

// idIn finds the id of a message whose beginning is all that is left. It
// returns 0 when the message is no answer, or does not say so in time.
func idIn(head []byte) int64 {
	d := jsontext.NewDecoder(bytes.NewReader(head))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return 0
	}
	for {
		name, err := d.ReadToken()
		if err != nil || name.Kind() != '"' {
			return 0
		}
		if name.String() != "id" {
			if d.SkipValue() != nil {
				return 0
			}
			continue
		}
		v, err := d.ReadToken()
		if err != nil || v.Kind() != '0' {
			return 0
		}
		id, err := strconv.ParseInt(v.String(), 10, 64)
		if err != nil {
			return 0
		}
		return id
	}
}

// envelope is what a frame says: an answer when ID is set, else an event.
// Unknown members are other people's business.
type envelope struct {
	ID        int64          `json:"id"`
	SessionID string         `json:"sessionId"`
	Method    string         `json:"method"`
	Params    jsontext.Value `json:"params"`
	Result    jsontext.Value `json:"result"`
	Error     *protocolError `json:"error"`
}

// request is a command on its way to the browser.
type request struct {
	ID        int64  `json:"id"`
	Method    string `json:"method"`
	Params    any    `json:"params,omitzero"`
	SessionID string `json:"sessionId,omitzero"`
}
