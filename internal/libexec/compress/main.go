// Command compress writes a program compressed by Zstandard beside it, as NAME.zst, for embedding. A result that is
// newer than the program stays.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

func main() {
	for _, path := range os.Args[1:] {
		if err := compress(path); err != nil {
			fmt.Fprintln(os.Stderr, "compress:", err)
			os.Exit(1)
		}
	}
}

func compress(path string) (err error) {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	program, err := in.Stat()
	if err != nil {
		return err
	}
	to := path + ".zst"
	if made, err := os.Stat(to); err == nil && made.ModTime().After(program.ModTime()) {
		return nil
	}
	temporary := to + ".new" // a compression that was cut off must not be embedded
	out, err := os.Create(temporary)
	if err != nil {
		return err
	}
	w, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err == nil {
		_, err = io.Copy(w, in)
		err = errors.Join(err, w.Close())
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, to)
}
