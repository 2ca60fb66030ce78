package hostfiles

import (
	"io/fs"
	"os"
)

func likeFile(*os.File, fs.FileInfo) error { return nil }
