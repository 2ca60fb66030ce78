package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// image makes an archive for docker load and podman load: the program on the base, or alone.
func (r *release) image(processor string) error {
	var layers []v1.Layer
	if r.base != "" {
		base, err := tarball.LayerFromFile(r.base)
		if err != nil {
			return err
		}
		layers = append(layers, base)
	}
	program, err := r.programLayer(processor)
	if err != nil {
		return err
	}
	made, err := mutate.AppendLayers(empty.Image, append(layers, program)...)
	if err != nil {
		return err
	}
	config, err := made.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", processor
	config.Created = v1.Time{Time: r.time}
	config.Config.Entrypoint = []string{"/usr/bin/fumehood"}
	config.Config.Cmd = []string{"serve"}
	config.Config.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
	config.Config.Labels = map[string]string{"org.opencontainers.image.version": r.version,
		"org.opencontainers.image.revision": r.commit, "org.opencontainers.image.source": repository}
	if made, err = mutate.ConfigFile(made, config); err != nil {
		return err
	}
	tag, err := name.NewTag("fumehood:" + packageTag(r.version))
	if err != nil {
		return err
	}
	path := filepath.Join(r.out, "fumehood-"+r.version+"-image-"+processor+".tar")
	return r.written(path, func(w io.Writer) error { return tarball.Write(tag, made, w) })
}

// programLayer is a layer with the program, and the folders that it needs where there is no base.
func (r *release) programLayer(processor string) (v1.Layer, error) {
	content, err := os.ReadFile(r.program("linux", processor))
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	t := tar.NewWriter(&layer)
	for _, dir := range []string{"usr/", "usr/bin/", "tmp/"} {
		if dir != "tmp/" && r.base != "" {
			continue
		}
		mode := int64(0o755)
		if dir == "tmp/" {
			mode = 0o1777
		}
		if err := t.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: mode, ModTime: r.time}); err != nil {
			return nil, err
		}
	}
	err = t.WriteHeader(&tar.Header{Name: "usr/bin/fumehood", Mode: 0o755, Size: int64(len(content)), ModTime: r.time})
	if err == nil {
		_, err = t.Write(content)
	}
	if err = errors.Join(err, t.Close()); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	})
}
