package cdp

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// Frames come out as they went in, whatever pieces they arrive in; a large one
// is passed over and leaves its neighbours alone.
func TestFrames(t *testing.T) {
	large := `{"id":7,"result":"` + strings.Repeat("x", 200<<10) + `"}`
	in := strings.Join([]string{`{"id":1}`, "", large, `{"id":2}`, "torn"}, "\x00")
	for name, r := range map[string]io.Reader{
		"whole":  strings.NewReader(in),
		"halves": iotest.HalfReader(strings.NewReader(in)),
		"bytes":  iotest.OneByteReader(strings.NewReader(in)),
	} {
		f := newFrames(r, 100<<10)
		for i, want := range []struct {
			frame    string
			oversize bool
		}{{`{"id":1}`, false}, {"", false}, {large[:headBytes], true}, {`{"id":2}`, false}} {
			frame, oversize, err := f.next()
			if string(frame) != want.frame || oversize != want.oversize || err != nil {
				t.Errorf("%s: frame %d: %.40q, %v, %v", name, i, frame, oversize, err)
			}
		}
		if _, _, err := f.next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the torn end: %v", name, err)
		}
	}
}

// The bound is exact: a frame of that many bytes passes, one byte more does not
// (S3.17).
func TestFrameBound(t *testing.T) {
	for size, over := range map[int]bool{99: false, 100: false, 101: true} {
		_, oversize, err := newFrames(strings.NewReader(strings.Repeat("y", size)+"\x00"), 100).next()
		if oversize != over || err != nil {
			t.Errorf("%d bytes: %v, %v", size, oversize, err)
		}
	}
}

// Whose a broken-off message is, is read from its beginning.
func TestIDIn(t *testing.T) {
	for head, want := range map[string]int64{
		`{"id":12,"result":{"data":"iVBOR`:                12,
		`{"jsonrpc":"2.0","id":3,"result":{"a`:            3,
		`{"method":"Page.frameNavigated","params":{"fram`: 0,
		`{"result":{"id":5},"id":6,"x`:                    6,
		`{"result":{"id":5`:                               0,
		`{"id":"7"}`:                                      0,
		`{"id":1e99}`:                                     0,
		`[1]`:                                             0,
		``:                                                0,
		`{`:                                               0,
	} {
		if got := idIn([]byte(head)); got != want {
			t.Errorf("idIn(%s) = %d, want %d", head, got, want)
		}
	}
}

// Whatever arrives: no frame is over the bound, none holds a zero byte, and
// those within it are exactly the pieces of the stream.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("{\"id\":1}\x00{\"method\":\"x\"}\x00"), 16)
	f.Add([]byte("\x00\x00torn"), 1)
	f.Add(bytes.Repeat([]byte("long"), 2_000), 5_000)
	f.Fuzz(func(t *testing.T, in []byte, max int) {
		max = 1 + (max&0x7fffffff)%(1<<13)
		pieces := bytes.Split(in, []byte{0})
		fr := newFrames(bytes.NewReader(in), max)
		for _, want := range pieces[:len(pieces)-1] {
			got, oversize, err := fr.next()
			switch {
			case err != nil:
				t.Fatal(err)
			case oversize != (len(want) > max):
				t.Fatalf("%d bytes, bound %d: oversize %v", len(want), max, oversize)
			case oversize && (len(got) > headBytes || !bytes.HasPrefix(want, got)):
				t.Fatal("the head is not the beginning")
			case !oversize && !bytes.Equal(got, want):
				t.Fatal("a frame is not what was sent")
			}
			idIn(got)
		}
		if _, _, err := fr.next(); err == nil {
			t.Fatal("a torn frame was returned")
		}
	})
}
