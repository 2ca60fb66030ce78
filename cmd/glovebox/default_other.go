//go:build !linux

package main

// defaultBackend is that of runs that name none. What is made of Linux's own walls is not there.
const defaultBackend = "docker"
