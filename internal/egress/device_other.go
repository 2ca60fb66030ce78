//go:build !linux

package egress

import (
	"context"
	"net"
	"net/netip"
	"os"
	"syscall"

	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

type device struct {
	stack.LinkEndpoint
}

func newDevice(*gate, *os.File) (*device, error) {
	return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "device", Msg: "sandboxes have a network on Linux only"}
}

func (*device) read()        {}
func (*device) close() error { return nil }

func routeTo(netip.AddrPort, byte) rules.Route { return rules.RouteUnknown }

var forbidBroadcast func(string, string, syscall.RawConn) error

func copyRaw(context.Context, *pace, net.Conn, func([]byte) error) error { return errReset }

func sendDatagram(net.Conn, []byte) error { return errReset }
