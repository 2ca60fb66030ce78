package docker

import (
	"context"
	"net"
	"path/filepath"

	guestclient "github.com/fumehood-dev/fumehood/internal/guest/client"
)

func (box *Box) dialSocket(ctx context.Context) (net.Conn, error) {
	return guestclient.DialSocket(ctx, filepath.Join(box.Dir, socketFolder), socketFile)
}
