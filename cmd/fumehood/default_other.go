//go:build !linux

package main

// defaultBackend is the backend of runs that name none. This system lacks those that need Linux.
const defaultBackend = "docker"
