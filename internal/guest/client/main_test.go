package client_test

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	runAsGuest()
	runAsLeaver()
	os.Exit(m.Run())
}
