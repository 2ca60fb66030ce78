module github.com/glovebox-dev/glovebox

go 1.26.0

toolchain go1.26.8

require (
	github.com/prometheus/client_golang v1.23.2 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
