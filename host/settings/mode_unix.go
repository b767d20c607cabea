//go:build unix

package settings

import "io/fs"

func writableByOthers(info fs.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }

func readableByOthers(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }
