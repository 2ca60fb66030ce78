package attack

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/volume"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// volumes are the volumes of an arena, in a temporary folder.
type volumes struct {
	*volume.Store
	remove func() error // of its folder
}

func newVolumes() (v volumes, err error) {
	dir, remove, err := ownFolder("volumes-" + strings.ToLower(rand.Text()[:10]))
	if err != nil {
		return v, err
	}
	v.remove = remove
	lives := func(string, sandbox.ID) (bool, error) { return false, nil } // each run ends before the next
	v.Store = volume.New(volume.Options{Dir: dir, Lives: lives})
	return v, nil
}

func (v volumes) close() error {
	v.Store.Close()
	return v.remove()
}

// driveVolume runs the probe with a volume at /data, then as another owner, then the second probe, which may only read.
func driveVolume(tr *trial) {
	const name, inodes = "data", 256
	owner, store := tr.nonce, tr.arena.volumes
	_, err := store.Create(tr.stepContext(), sandbox.VolumeRequest{Owner: owner, Name: name, Bytes: volume.LeastBytes,
		Inodes: inodes})
	if len(sandbox.UnenforcedOf(err)) > 0 || sandbox.KindOf(err) == sandbox.Unsupported {
		tr.skip("this host cannot bound a volume: %v", err)
	}
	tr.need(err)
	judge := func(code []byte, readOnly bool) {
		r, err := tr.onVolume(owner, code, readOnly)
		if sandbox.KindOf(err) == sandbox.Unsupported {
			tr.skip("%v", err)
		}
		tr.need(err)
		tr.searchOutput(r)
		tr.judge(r)
	}
	judge(tr.attack.code, false)
	for _, other := range []string{"", "other", owner + "/"} {
		r, err := tr.onVolume(other, tr.attack.code, true)
		if sandbox.KindOf(err) != sandbox.NotFound || err == nil {
			tr.fail("the owner %q can use the volume of another: %v, %+v", other, err, r)
		}
	}
	if tr.attack.secondCode != nil {
		judge(tr.attack.secondCode, true)
	}
	if v, err := store.Find(owner, name); err != nil || v.UsedBytes > volume.LeastBytes {
		tr.fail("the volume takes %d bytes of the disk: %v", v.UsedBytes, err)
	}
	if err := store.Remove(context.WithoutCancel(tr.ctx), owner, name); err != nil {
		tr.fail("remove the volume: %v", err)
	}
}

// onVolume runs code with the volume of an owner.
func (tr *trial) onVolume(owner string, code []byte, readOnly bool) (*sandbox.Result, error) {
	run := tr.request(code)
	run.Owner = owner
	run.Spec.Volumes = []sandbox.Volume{{Name: "data", Path: "/data", ReadOnly: readOnly}}
	return tr.arena.engine.Run(tr.stepContext(), run)
}
