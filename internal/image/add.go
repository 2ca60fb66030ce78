package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/trees"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// source is an image somewhere else.
type source struct {
	name   string
	image  v1.Image
	report func(text string) // receives a line of progress every progressEvery; may be nil
	moved  func()            // is called for each piece that arrives; may be nil
	remote bool              // it is in a registry
	began  time.Time         // when it was asked for
}

// add unpacks an image and records it under its name.
func (s *Store) add(ctx context.Context, from source) (Image, error) {
	config, err := from.image.ConfigFile()
	if err != nil {
		return Image{}, unreadable(err)
	}
	if config.OS != "" && config.OS != "linux" || config.Architecture != "" && config.Architecture != runtime.GOARCH {
		return Image{}, &sandbox.Error{Kind: sandbox.Unsupported, Op: "image", Msg: fmt.Sprintf(
			"%s is for %.20s/%.20s, and this machine is linux/%s", from.name, config.OS, config.Architecture,
			runtime.GOARCH)}
	}
	layers, err := from.image.Layers()
	if err != nil {
		return Image{}, unreadable(err)
	}
	if len(layers) != len(config.RootFS.DiffIDs) || len(layers) == 0 {
		return Image{}, invalid("%s has %d layers, and its configuration names %d", from.name, len(layers),
			len(config.RootFS.DiffIDs))
	}
	digest, err := from.image.Digest()
	if err != nil {
		return Image{}, unreadable(err)
	}
	record := treeRecord{}
	for _, id := range config.RootFS.DiffIDs {
		record.Layers = append(record.Layers, id.String())
	}
	tree := treeOf(record.Layers)
	if !s.whole(tree) {
		if err := s.unpack(ctx, from, layers, &record); err != nil {
			return Image{}, err
		}
	} else if _, _, err := s.trees.Record(tree, &record); err != nil {
		return Image{}, err
	}
	start, err := hostbox.StartOf(config.Config.Labels)
	if err != nil {
		return Image{}, err
	}
	i := Image{Name: from.name, Digest: digest.String(), Tree: tree, AddedAt: time.Now().UTC(), Bytes: record.Bytes,
		Entries: record.Entries, LayerCount: len(layers),
		Config: Config{Env: config.Config.Env, User: config.Config.User, Dir: config.Config.WorkingDir,
			Entrypoint: config.Config.Entrypoint, Command: config.Config.Cmd,
			Start: start}}
	if err := s.name(i, from.began); err != nil {
		return i, err
	}
	_ = s.reserve(0) // prunes; the next image tries again
	return i, nil
}

// reserveStep is how much a tree reserves at once, in bytes, so that not each file looks for room.
const reserveStep = 64 << 20

// unpack makes the tree of an image's layers. It begins with a copy of the tree that has most of them, by hard links.
func (s *Store) unpack(ctx context.Context, from source, layers []v1.Layer, record *treeRecord) (err error) {
	draft, err := s.trees.NewDraft()
	if err != nil {
		return err
	}
	published := false
	defer func() {
		if !published {
			err = errors.Join(err, draft.Discard())
		}
	}()
	below, err := s.copyBelow(ctx, draft, record.Layers)
	if err != nil {
		return err
	}
	u, err := newUnpacker(draft.Files(), s.Limits.after(below))
	if err != nil {
		return err
	}
	reserved := int64(0)
	defer func() { s.unreserve(reserved) }()
	u.reserve = func(bytes int64) (more int64, err error) {
		more = max(bytes, min(reserveStep, s.maxBytes/64))
		if err = s.reserve(more); err == nil {
			reserved += more
		}
		return more, err
	}
	for i := len(below.Layers); i < len(layers) && err == nil; i++ {
		shown := time.Now()
		open := layers[i].Uncompressed
		if from.remote {
			open = func() (io.ReadCloser, error) { return uncompressed(layers[i]) }
		}
		err = s.unpackLayer(ctx, u, open, record.Layers[i], func(done int64) {
			if from.moved != nil {
				from.moved()
			}
			if from.report != nil && time.Since(shown) > progressEvery {
				shown = time.Now()
				from.report(fmt.Sprintf("%s: layer %d of %d: %s", from.name, i+1, len(layers),
					sandbox.FormatBytes(done)))
			}
		})
	}
	record.Bytes, record.Entries = s.Limits.Bytes-u.limits.Bytes, s.Limits.Entries-u.limits.Entries
	if err = errors.Join(err, u.Close()); err != nil {
		return err
	}
	published = true
	return draft.Publish(treeOf(record.Layers), record)
}

// copyBelow copies the tree with the longest beginning of layers into a draft, and returns its record.
func (s *Store) copyBelow(ctx context.Context, draft *trees.Draft, layers []string) (best treeRecord, err error) {
	for n := len(layers) - 1; n > 0; n-- {
		digest := treeOf(layers[:n])
		release, err := s.trees.Hold(digest)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return best, err
		}
		defer release()
		if _, _, err := s.trees.Record(digest, &best); err != nil {
			return best, err
		}
		_, err = copyTree(ctx, s.trees.Files(digest), draft.Files(), func(int64) error { return nil })
		return best, err
	}
	return best, nil
}

// unpackLayer unpacks one layer, and verifies its digest.
func (s *Store) unpackLayer(ctx context.Context, u *unpacker, open func() (io.ReadCloser, error), digest string,
	progress func(int64)) error {
	content, err := open()
	if err != nil {
		return unreadable(err)
	}
	defer content.Close()
	// The headers and the padding of empty files are bounded too, also after the end of the archive.
	r := &meteredReader{ctx: ctx, r: content, sum: sha256.New(), left: u.limits.Bytes + maxPadding, progress: progress}
	if err := u.layer(r); err != nil {
		if r.err != nil {
			return unreadable(r.err)
		}
		return err
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return unreadable(err)
	}
	if found := "sha256:" + hex.EncodeToString(r.sum.Sum(nil)); found != digest {
		return invalid("a layer has the digest %s, and the configuration of the image names %.80s", found, digest)
	}
	return nil
}

// meteredReader hashes and bounds what is read, and fails when its context ends.
type meteredReader struct {
	ctx      context.Context
	r        io.Reader
	sum      hash.Hash
	left     int64
	done     int64
	progress func(done int64)
	err      error // the first failure that is not the end
}

const progressEvery = 2 * time.Second

func (m *meteredReader) Read(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		m.err = context.Cause(m.ctx)
		return 0, m.err
	}
	n, err := m.r.Read(p)
	m.sum.Write(p[:n])
	m.done += int64(n)
	if m.left -= int64(n); m.left < 0 {
		err = tooLarge("bytes")
	}
	m.progress(m.done)
	if err != nil && !errors.Is(err, io.EOF) {
		m.err = err
	}
	return n, err
}

// unreadable returns the error of a source that cannot be read.
func unreadable(err error) error {
	var known *sandbox.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "image", Msg: "it cannot be read", Err: err}
}
