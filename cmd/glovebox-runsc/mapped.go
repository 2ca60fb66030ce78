//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
)

// envMapped names the descriptor on which whoever started us in a new user namespace says that its ids are mapped.
const envMapped = "GLOVEBOX_RUNSC_MAPPED"

// awaitRoot waits for that: it is what makes this process the root that runsc expects to be. Elsewhere it does nothing.
func awaitRoot() error {
	number, is := os.LookupEnv(envMapped)
	if !is {
		return nil
	}
	if err := os.Unsetenv(envMapped); err != nil { // what runsc starts of itself has nothing to wait for
		return err
	}
	fd, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	said := os.NewFile(uintptr(fd), "mapped")
	defer said.Close()
	if _, err := said.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("whoever started this is gone: %w", err)
	}
	return nil
}
