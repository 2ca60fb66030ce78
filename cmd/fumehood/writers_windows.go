package main

import "io/fs"

// writers says nobody: what a mode says here is only whether a file may be written to at all.
func writers(fs.FileInfo, bool) (who, fix string) { return "", "" }

func isRoots(string) bool { return false }
