package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const fileMode = 0o644 // of a file whose mode is not given

// upload sends files and code, and takes the baseline. Code is one call, all files another.
func (x *Run) upload(ctx context.Context) error {
	if x.resumed != nil {
		return nil // an earlier server sent all of it
	}
	started := time.Now()
	defer func() { x.timings.Upload = time.Since(started) }()
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	if err := x.sendFiles(ctx); err != nil {
		return x.uploadError("files", err)
	}
	if x.Request.Code != nil && x.context == nil {
		if err := x.sendCode(ctx); err != nil {
			return x.uploadError("code", err)
		}
	}
	if x.BuildDir != "" {
		if err := x.sendTool(ctx); err != nil {
			return x.toolError(err)
		}
	}
	if x.work != nil && x.work.Tool != "" {
		if err := x.sandbox.writeTool(ctx, x.work.Tool, surveyTool+x.work.Tool); err != nil {
			return x.toolError(err)
		}
	}
	if err := x.takeBaseline(ctx); err != nil {
		return fmt.Errorf("list the workspace: %w", err)
	}
	return nil
}

func (x *Run) sendFiles(ctx context.Context) error {
	files := x.Request.Files
	if len(files) == 0 {
		return nil
	}
	return x.sandbox.call(ctx, func(c *client.Client) error {
		next := 0
		_, err := c.Unpack(ctx, guest.Unpack{Base: sandbox.Workspace}, func() (guest.FileInfo, io.Reader, error) {
			if next == len(files) {
				return guest.FileInfo{}, nil, io.EOF
			}
			f := &files[next]
			next++
			info := guest.FileInfo{Path: f.Path, Type: guest.FileRegular, Mode: cmp.Or(f.Mode, fileMode),
				Size: uint64(len(f.Data))}
			return info, bytes.NewReader(f.Data), nil
		})
		return err
	})
}

func (x *Run) sendCode(ctx context.Context) error {
	return x.sandbox.call(ctx, func(c *client.Client) error {
		return c.WriteFile(ctx, guest.WriteFile{Path: x.CodePath, Mode: fileMode, Truncate: true},
			bytes.NewReader(x.Request.Code))
	})
}

// uploadError returns why an upload failed, in the caller's words.
func (x *Run) uploadError(what string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &sandbox.Error{Kind: sandbox.TooLarge, Op: what,
			Msg: fmt.Sprintf("they do not fit into the sandbox, which has %s of disk and %s inodes",
				sandbox.FormatBytes(x.Spec.Limits.DiskBytes), strconv.FormatInt(x.Spec.Limits.Inodes, 10)),
			Fixes: []sandbox.Hint{sandbox.FixRaise{Bound: sandbox.Bound{Limit: sandbox.LimitDisk}}}, Err: err}
	}
	return fmt.Errorf("send the %s: %w", what, err)
}
