package proc

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// holder is the process that holds the first TCP socket that matches.
func holder(match func(connection) bool) (int, error) {
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		inode, err := socket(table, match)
		if err != nil {
			return 0, err
		}
		if inode != "" {
			return holderOf("socket:[" + inode + "]")
		}
	}
	return 0, errNobody
}

// socket is the number of the first socket of a table that matches; "" for none.
func socket(table string, match func(connection) bool) (string, error) {
	f, err := os.Open(table)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // no IPv6 here
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Scan() // the heading
	for lines.Scan() {
		c, inode, err := parseSocket(lines.Text())
		if err != nil {
			return "", err
		}
		if inode != "0" && match(c) { // 0: its process has let it go
			return inode, nil
		}
	}
	return "", lines.Err()
}

// parseSocket reads a line of /proc/net/tcp or tcp6: number, local, remote,
// state, …, inode as the tenth.
func parseSocket(line string) (connection, string, error) {
	f := strings.Fields(line)
	if len(f) < 10 {
		return connection{}, "", errors.New("proc: a short line in the table of sockets")
	}
	local, err := parseAddress(f[1])
	if err != nil {
		return connection{}, "", err
	}
	remote, err := parseAddress(f[2])
	if err != nil {
		return connection{}, "", err
	}
	return connection{local, remote, f[3] == "0A"}, f[9], nil
}

// parseAddress reads "0100007F:1F90": 32-bit words, each printed as the number
// that its bytes make in this computer's memory.
func parseAddress(text string) (netip.AddrPort, error) {
	ip, port, ok := strings.Cut(text, ":")
	b, err := hex.DecodeString(ip)
	if !ok || err != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("proc: %q is no address", text)
	}
	for w := b; len(w) > 0; w = w[4:] {
		binary.NativeEndian.PutUint32(w, binary.BigEndian.Uint32(w))
	}
	addr, ok := netip.AddrFromSlice(b)
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, fmt.Errorf("proc: %q is no address", text)
	}
	return plain(netip.AddrPortFrom(addr, uint16(n))), nil
}

// holderOf is the first process with a descriptor of that name.
func holderOf(socket string) (int, error) {
	pids, err := numbers()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		dir, err := os.Open(file(pid, "fd"))
		if err != nil {
			continue // gone, or not ours to read
		}
		names, _ := dir.Readdirnames(0)
		dir.Close()
		for _, name := range names {
			if to, _ := os.Readlink(filepath.Join(file(pid, "fd"), name)); to == socket {
				return pid, nil
			}
		}
	}
	return 0, errNobody
}
