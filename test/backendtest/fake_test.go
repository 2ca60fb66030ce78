package backendtest_test

import (
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

func TestMain(m *testing.M) { backendtest.Main(m) }

func TestFake(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) sandbox.Backend { return backendtest.NewFake(t) })
}
