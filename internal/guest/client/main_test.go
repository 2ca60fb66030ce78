package client_test

import (
	"os"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/guest/guesttest"
)

func TestMain(m *testing.M) {
	guesttest.Main()
	os.Exit(m.Run())
}
