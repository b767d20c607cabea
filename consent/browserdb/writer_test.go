package browserdb

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"browserhost"
)

// Locks are kept per process, so the browser of these tests is a process of
// its own: this test binary, called with a mode and a path.
const writerVariable = "BROWSERHOST_TEST_WRITER"

// writerModes prepare the database as a browser may hold it, with two cookies
// committed.
var writerModes = map[string][]string{
	"delete":           nil,
	"wal":              {"PRAGMA journal_mode = wal", "DELETE FROM cookies WHERE host_key = 'bank.test'", insert("bank.test", "later")},
	"wal exclusive":    {"PRAGMA locking_mode = exclusive", "PRAGMA journal_mode = wal", "DELETE FROM cookies WHERE host_key = 'bank.test'", insert("bank.test", "later")},
	"delete exclusive": {"PRAGMA locking_mode = exclusive", "UPDATE cookies SET name = 'later'"},
	"in transaction":   {"PRAGMA cache_size = 1", "PRAGMA cache_spill = 1", "BEGIN EXCLUSIVE", "DELETE FROM cookies", bulk},
	"no wait":          {"BEGIN EXCLUSIVE", "DELETE FROM cookies"},
}

// bulk writes enough for the cache to spill into the file before the commit.
const bulk = `INSERT INTO cookies WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n WHERE x < 2000)
	SELECT 1,'shop.test','','sid'||x,hex(zeroblob(200)),x'','/',0,1,1,0,0,0,1,1,2,443,0,0,0 FROM n`

func writerMain() {
	mode, path := os.Args[1], os.Args[2]
	fail := func(err error) {
		if err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
	}
	db, err := sql.Open("sqlite", path)
	fail(err)
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(context.Background())
	fail(err)
	do := func(s string) {
		_, err := conn.ExecContext(context.Background(), s)
		fail(err)
	}
	for _, s := range writerModes[mode] {
		do(s)
	}
	if mode == "churn" {
		do("PRAGMA journal_mode = wal")
		do("PRAGMA wal_autocheckpoint = 2")
	}
	fmt.Println("ready")
	stop := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	for i := 0; strings.HasPrefix(mode, "churn"); i++ {
		select {
		case <-stop:
			fail(conn.Close())
			os.Exit(0)
		default:
		}
		// Two commits a round, far apart in the file: the second site is never
		// ahead of the first, and at most one round behind.
		do(fmt.Sprintf("UPDATE cookies SET creation_utc = %d WHERE host_key = 'shop.test'", i+10))
		do(fmt.Sprintf("UPDATE cookies SET creation_utc = %d WHERE host_key = 'zoo.test'", i+10))
	}
	<-stop
	os.Exit(0)
}

// write starts a writer and waits until it holds the file.
func write(t *testing.T, mode, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], mode, path)
	cmd.Env = append(os.Environ(), writerVariable+"=1", "GORACE=atexit_sleep_ms=0")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("writer: %q %v", line, err)
	}
	return cmd
}

// leftovers lists private copies that are still there.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "browserhost-read-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The locked-database matrix: whatever a browser does with its file, the
// answer is the committed one, not a byte of the profile changes, and no copy
// is left behind (S1.45).
func TestLockedMatrix(t *testing.T) {
	for _, c := range []struct {
		mode   string
		copied bool
	}{
		{"delete", false},
		{"wal", true},
		{"wal exclusive", true},
		{"delete exclusive", true},
		{"in transaction", true},
		{"no wait", true},
	} {
		t.Run(c.mode, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			path := build(t)
			write(t, c.mode, path)
			before := snapshotOf(t, filepath.Dir(path))
			n, copied, err := count(t.Context(), path)
			if err != nil || n != 2 || copied != c.copied {
				t.Errorf("%d rows, copied %v, %v", n, copied, err)
			}
			if after := snapshotOf(t, filepath.Dir(path)); !reflect.DeepEqual(before, after) {
				t.Errorf("the profile changed: %v, was %v", keysOf(after), keysOf(before))
			}
			if left := leftovers(t, temp); left != nil {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A browser that was killed in the middle of writing leaves a journal; its
// half-written pages are undone, in the copy only.
func TestKilledWriter(t *testing.T) {
	path := build(t)
	cmd := write(t, "in transaction", path)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	before := snapshotOf(t, filepath.Dir(path))
	if len(before) != 2 || len(before["Cookies-journal"]) < 4096 {
		t.Fatalf("the writer left no journal: %v", keysOf(before))
	}
	n, copied, err := count(t.Context(), path)
	if err != nil || n != 2 || !copied {
		t.Errorf("%d rows, copied %v, %v", n, copied, err)
	}
	if after := snapshotOf(t, filepath.Dir(path)); !reflect.DeepEqual(before, after) {
		t.Errorf("the profile changed: %v, was %v", keysOf(after), keysOf(before))
	}
}

// While the log is written and folded back all the time, a copy is one moment
// of the database, or it is refused as busy; it is never a mixture.
func TestCoherentCopies(t *testing.T) {
	for _, mode := range []string{"churn", "churn journal"} {
		path := build(t, bulk, "UPDATE cookies SET host_key = 'padding' || rowid WHERE name LIKE 'sid_%'", insert("zoo.test", "sid"), "UPDATE cookies SET creation_utc = 10")
		write(t, mode, path)
		read := 0
		for try := 0; read < 20 && try < 5000; try++ {
			rounds, err := pair(t.Context(), path)
			if err != nil {
				wantReason(t, err, browserhost.CodeUpstream, "busy")
				continue
			}
			read++
			if len(rounds) != 2 || rounds[0]-rounds[1] < 0 || rounds[0]-rounds[1] > 1 {
				t.Fatalf("%s: two moments in one copy: %v", mode, rounds)
			}
		}
		if read < 20 {
			t.Errorf("%s: read only %d times", mode, read)
		}
	}
}

func pair(ctx context.Context, path string) (rounds []int, err error) {
	db, err := Open(ctx, path, everything)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.Query(ctx, "SELECT creation_utc FROM cookies WHERE host_key = 'shop.test' OR host_key = 'zoo.test' ORDER BY host_key")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var round int
		if err := rows.Scan(&round); err != nil {
			return nil, err
		}
		rounds = append(rounds, round)
	}
	return rounds, rows.Err()
}

// The private copy is the owner's alone, and on systems that allow it, it has
// no name any more once it can be read.
func TestCopyIsPrivate(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	path := build(t)
	s, err := take(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]os.FileMode{s.dir: 0o700, s.file: 0o600} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v", p, info.Mode(), err)
		}
	}
	if err := s.remove(); err != nil {
		t.Fatal(err)
	}
	if err := s.remove(); err != nil {
		t.Errorf("again: %v", err)
	}
	write(t, "wal", path)
	db, err := Open(t.Context(), path, hostKey)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if left := leftovers(t, temp); left != nil && os.PathSeparator == '/' {
		t.Errorf("the open copy still has a name: %v", left)
	}
}

// Called off in the middle of a copy: nothing stays.
func TestCopyCalledOff(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	path := build(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := take(ctx, path); s != nil || browserhost.CodeOf(err) != browserhost.CodeTimeout {
		t.Errorf("got %v", err)
	}
	if left := leftovers(t, temp); left != nil {
		t.Errorf("left: %v", left)
	}
}
