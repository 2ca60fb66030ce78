package keyfile

import (
	"io/fs"
	"os"
)

const noFollow = 0

func likeFile(*os.File, fs.FileInfo) error { return nil }
