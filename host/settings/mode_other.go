//go:build !unix

package settings

import "io/fs"

// Where files have no mode bits, the user's own directory keeps others out.
func writableByOthers(fs.FileInfo) bool { return false }

func readableByOthers(fs.FileInfo) bool { return false }
