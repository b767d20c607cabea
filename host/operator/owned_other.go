//go:build !unix

package operator

func ownDirectory(string) error { return supported() }
