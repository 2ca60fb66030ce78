package main

import (
	"context"
	"errors"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

const imageRuns = 200

// imageStarts compares fresh Pythons of pythonImage and of the host's root, alternating, first without and then with
// sandboxes that are kept ready.
func (r *report) imageStarts(ctx context.Context, home string) (err error) {
	f := &r.figures.images
	if f.cold, err = r.imageStart(ctx, home, "0"); err == nil {
		f.warm, err = r.imageStart(ctx, home, "4")
	}
	return err
}

// imageStart returns the medians with the host's root and with the image.
func (r *report) imageStart(ctx context.Context, home, warm string) (p50 [2]time.Duration, err error) {
	s, err := liveserver.Start(ctx, liveserver.Options{Binary: r.binary, Args: []string{"--warm", warm},
		Env: []string{"HOME=" + home}})
	if err != nil {
		return p50, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	var took [2][]time.Duration
	for n := range warmups + r.most(imageRuns) {
		for i, image := range []string{"", pythonImage} {
			one, err := timed(ctx, s, &liveserver.Request{Language: "python", Code: "pass", Image: image})
			if err != nil {
				return p50, err
			}
			if n >= warmups {
				took[i] = append(took[i], one)
			}
		}
	}
	return [2]time.Duration{summarize(took[0]).p50, summarize(took[1]).p50}, nil
}
