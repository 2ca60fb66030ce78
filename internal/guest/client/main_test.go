package client_test

import (
	"os"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/guest/guesttest"
)

func TestMain(m *testing.M) {
	guesttest.Main()
	os.Exit(m.Run())
}
