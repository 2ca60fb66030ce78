//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
)

// envMapped holds the descriptor on which the parent, which has made a new user namespace, reports that the ids are
// mapped.
const envMapped = "FUMEHOOD_RUNSC_MAPPED"

// awaitRoot waits for the id mapping, which makes this process root, as runsc requires. Without envMapped it returns.
func awaitRoot() error {
	number, is := os.LookupEnv(envMapped)
	if !is {
		return nil
	}
	if err := os.Unsetenv(envMapped); err != nil { // runsc's own children must not wait
		return err
	}
	fd, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	said := os.NewFile(uintptr(fd), "mapped")
	defer said.Close()
	if _, err := said.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("the parent has ended: %w", err)
	}
	return nil
}
