package template

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/image"
)

// derive makes the tree of the current one and a layer.
func (b *build) derive(ctx context.Context, st *state, layer io.Reader) (string, error) {
	var last time.Time // when the previous entry was charged
	estimated := int64(0)
	return b.Images.Derive(ctx, image.Layer{Parent: st.tree, Owner: b.want.Owner, Content: layer,
		Spend: func(entries int, bytes int64) error {
			work := int64(entries)*entryWork + bytes/writtenBytes
			b.trees += work
			if b.MaxWork > 0 && b.trees > treeShare*b.MaxWork {
				return tooLarge("its layers take the server too much work: too many files, or steps above many files")
			}
			// ext4 takes up to a hundred times as long to make a file if many were removed in the last minute.
			if longer := int64(time.Since(last)/workTime) - estimated; !last.IsZero() && longer > 0 {
				b.charge(longer)
			}
			b.charge(work)
			last, estimated = time.Now(), work // after a wait
			return nil
		}})
}

// add makes the tree of the current one and a layer that a function writes.
func (b *build) add(ctx context.Context, st *state, write func(io.Writer) error) (string, error) {
	r, w := io.Pipe()
	var writer sync.WaitGroup
	writer.Go(func() { w.CloseWithError(write(w)) })
	tree, err := b.derive(ctx, st, r)
	err = errors.Join(err, r.Close()) // which ends the writer
	writer.Wait()                     // or it would read folders that are removed
	return tree, err
}
