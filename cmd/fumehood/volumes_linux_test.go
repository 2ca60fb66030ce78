package main

import (
	"os"
	"syscall"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestVolumeOutlivesServer: after its server was killed, a volume stays in use by its living sandbox, keeps its files,
// and can be removed after the sandbox.
func TestVolumeOutlivesServer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can bound a volume")
	}
	d := &dayServer{t: t, dir: shortDir(t), backend: "native"}
	d.start()
	defer func() { d.stop(syscall.SIGTERM) }()
	ctx := t.Context()
	_, err := d.client.CreateVolume(ctx, api.VolumeRequest{Name: "data", SizeMiB: 32})
	if len(sandbox.UnenforcedOf(err)) > 0 || sandbox.KindOf(err) == sandbox.Unsupported {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	mount := api.Isolation{Volumes: []api.VolumeMount{{Name: "data", Path: "/data"}}}
	if _, _, err := d.client.Create(ctx, api.SandboxRequest{Name: "agent", Isolation: mount}); err != nil {
		t.Fatal(err)
	}
	if got := d.do(step{"", "bash", "echo kept > /data/x", ""}); got != "succeeded 0" {
		t.Fatal(got)
	}
	d.stop(syscall.SIGKILL)
	d.start()
	if _, _, err := d.client.Create(ctx, api.SandboxRequest{Name: "second", Isolation: mount}); sandbox.KindOf(err) !=
		sandbox.Exists {
		t.Errorf("a second writer: %v", err)
	}
	if err := d.client.RemoveVolume(ctx, "data"); sandbox.KindOf(err) != sandbox.Exists {
		t.Errorf("removed while in use: %v", err)
	}
	if got := d.do(step{"", "bash", "cat /data/x", ""}); got != "succeeded 0 out=kept" {
		t.Error(got)
	}
	if err := d.client.Remove(ctx, "agent"); err != nil {
		t.Fatal(err)
	}
	if list, err := d.client.Volumes(ctx); err != nil || len(list) != 1 || len(list[0].Sandboxes) != 0 {
		t.Errorf("after the end of the sandbox: %+v %v", list, err)
	}
	if err := d.client.RemoveVolume(ctx, "data"); err != nil {
		t.Error(err)
	}
}
