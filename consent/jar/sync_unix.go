//go:build unix

package jar

import (
	"errors"
	"os"
)

// syncDir makes a rename or a removal in dir survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
