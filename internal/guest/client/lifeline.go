package client

import (
	"context"
	"net"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

// Lifeline makes conn the lifeline of a one-shot guest: when it closes, the guest ends, and with it the sandbox.
func Lifeline(ctx context.Context, conn net.Conn, key [guest.KeySize]byte) error {
	_, err := handshake(ctx, conn, guest.PurposeLifeline, key)
	if err != nil {
		return broken(ctx, "guest: lifeline", err)
	}
	return nil
}
