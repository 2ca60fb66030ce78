package client_test

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	runAsGuest()
	os.Exit(m.Run())
}
