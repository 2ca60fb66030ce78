//go:build !linux

package main

// defaultBackend is that of runs that name none. The backends that need Linux are not there.
const defaultBackend = "docker"
