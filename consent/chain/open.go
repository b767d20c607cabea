package chain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Open opens the chain at path for writing, or makes it, takes its lock and
// checks it whole. Its file is 0600 and its directory 0700, tightened where
// they are wider (AIP-63 C11).
//
// A last line that was cut short is kept and reported, and the next row follows
// it (K36). A chain with a fault is opened all the same, so that the host goes
// on recording; the report says what is wrong, and the head that proves it is
// not replaced. A chain that is open elsewhere is [ErrLocked].
func Open(ctx context.Context, path string, opts Options) (*File, Report, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if err := privateDir(filepath.Dir(path)); err != nil {
		return nil, Report{}, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, Report{}, err
	}
	c := &File{path: path, opts: opts, disk: f}
	report, err := c.begin(ctx, f)
	if err != nil {
		return nil, report, errors.Join(err, f.Close())
	}
	return c, report, nil
}

func (c *File) begin(ctx context.Context, f *os.File) (Report, error) {
	info, err := f.Stat()
	if err != nil {
		return Report{}, err
	}
	if !info.Mode().IsRegular() {
		return Report{}, fmt.Errorf("%s is no regular file", c.path)
	}
	if err := lock(f); err != nil {
		return Report{}, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return Report{}, err
		}
	}
	kept := readHead(c.path)
	found, err := inspect(ctx, f, c.path, kept.seq())
	if err != nil {
		return Report{}, err
	}
	report := found.report
	report.Anchor, _ = kept.judge(ctx, c.opts, found)
	if report.Torn > 0 {
		if err := c.mend(f, found); err != nil {
			return report, err
		}
	}
	if err := errors.Join(f.Sync(), syncDir(filepath.Dir(c.path))); err != nil {
		return report, err
	}
	if c.size, err = f.Seek(0, io.SeekEnd); err != nil {
		return report, err
	}
	c.next, c.last, c.durable = found.lines, found.last, found.lines
	if c.opts.Keys != nil && report.Bad == nil {
		c.head = newKeeper(c.path, c.opts, kept, found)
		if c.next > 0 && (report.Torn > 0 || report.Anchor != Matches) {
			c.head.note(c.next-1, c.last) // what a crash left without one
		}
	}
	return report, nil
}

// mend puts a copy of a line that was cut short aside and closes the line. The
// copy comes first: once there is a newline, only it tells a line that was cut
// short from one that was changed.
func (c *File) mend(f *os.File, found findings) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	size := int64(found.report.Torn)
	err = replace(tornPath(c.path, found.lines-1), io.NewSectionReader(f, end-size, size))
	if err != nil {
		return err
	}
	_, err = f.Write([]byte{'\n'})
	return err
}

// tornPath is where the copy of a line that was cut short is put.
func tornPath(path string, line int64) string { return fmt.Sprintf("%s.torn-%d", path, line+1) }

// replace puts a file at path in one step: after a crash it is the old one or
// the new one, and whole.
func replace(path string, text io.Reader) (err error) {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path+".new"))
	}
	return os.Rename(path+".new", path)
}

// privateDir makes dir, or takes the group's and others' rights from it. A
// directory that is shared on purpose, such as /tmp, is refused.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSticky != 0:
		return fmt.Errorf("%s is a shared directory, and a record is private", dir)
	case info.Mode().Perm()&0o077 == 0:
		return nil
	}
	return os.Chmod(dir, 0o700)
}
