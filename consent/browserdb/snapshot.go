package browserdb

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// snapshot is a private copy of a database and its side files. It is session
// material (S1.45): it lies in a directory of its own, 0700, and for as short
// as the system allows.
type snapshot struct {
	dir  string // "" once it is removed
	file string
}

const maxCopied = 2 << 30 // bytes of one file

var sides = []string{"-wal", "-journal"}

// generation is what changes when a writer has done something that could make
// copies of the single files disagree.
type generation struct {
	size    int64
	changed int64    // modification time, ns
	counter [4]byte  // the header's change counter
	log     [32]byte // the log's header: its salt differs after every reset
	journal [2]int64 // size and time of the rollback journal
	present map[string]bool
}

func (g generation) same(h generation) bool {
	// A log that only grew is fine: its frames are newer than the file's pages.
	return g.size == h.size && g.changed == h.changed && g.counter == h.counter &&
		g.log == h.log && g.journal == h.journal && g.present["-journal"] == h.present["-journal"]
}

func look(path string) (generation, error) {
	g := generation{present: map[string]bool{}}
	info, err := os.Stat(path)
	if err != nil {
		return g, fileProblem(err)
	}
	g.size, g.changed = info.Size(), info.ModTime().UnixNano()
	if err := readAt(path, g.counter[:], 24); err != nil {
		return g, fileProblem(err)
	}
	for _, side := range sides {
		info, err := os.Stat(path + side)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return g, fileProblem(err)
		}
		g.present[side] = true
		if side == "-journal" {
			g.journal = [2]int64{info.Size(), info.ModTime().UnixNano()}
			continue
		}
		if err := readAt(path+side, g.log[:], 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return g, fileProblem(err)
		}
	}
	return g, nil
}

// readAt fills b as far as the file reaches.
func readAt(path string, b []byte, at int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.ReadAt(b, at); err != nil && err != io.EOF {
		return err
	}
	return nil
}

// take copies the database first and its side files after it, and accepts the
// copy only if nothing that matters changed meanwhile.
func take(ctx context.Context, path string) (s *snapshot, err error) {
	dir, err := os.MkdirTemp("", "browserhost-read-") // 0700
	if err != nil {
		return nil, refuse(unreadable, err)
	}
	s = &snapshot{dir: dir, file: filepath.Join(dir, "db")}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.remove())
			s = nil
		}
	}()
	before, err := look(path)
	if err != nil {
		return s, err
	}
	if err := copyFile(ctx, path, s.file); err != nil {
		return s, err
	}
	for _, side := range sides {
		if err := copyFile(ctx, path+side, s.file+side); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
	after, err := look(path)
	if err != nil {
		return s, err
	}
	if !before.same(after) {
		return s, refuse(busy, errors.New("browserdb: the file changed while it was copied"))
	}
	return s, nil
}

func copyFile(ctx context.Context, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fileProblem(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return refuse(unreadable, err)
	}
	var total int64
	for err == nil && ctx.Err() == nil && total <= maxCopied {
		var n int64
		n, err = io.CopyN(out, in, 4<<20)
		total += n
	}
	if cerr := out.Close(); err == io.EOF {
		err = cerr
	}
	switch {
	case err != nil:
		return refuse(unreadable, err)
	case ctx.Err() != nil:
		return problem(ctx, ctx.Err())
	case total > maxCopied:
		return refuse(unreadable, errors.New("browserdb: the file is too large to copy"))
	}
	return nil
}

// remove deletes the copy. It may be called again.
func (s *snapshot) remove() error {
	if s.dir == "" {
		return nil
	}
	err := os.RemoveAll(s.dir)
	if err == nil {
		s.dir = ""
	}
	return err
}
