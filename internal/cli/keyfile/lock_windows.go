package keyfile

import (
	"io/fs"
	"os"
)

// lock does nothing: here one person changes keys by hand.
func lock(string) (unlock func(), err error) { return func() {}, nil }

func likeFile(*os.File, fs.FileInfo) error { return nil }
