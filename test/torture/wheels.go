package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// wheelNames are the packages that wheels has. Each has a variable "name".
var wheelNames = []string{"torturea", "tortureb", "torturec"}

// wheels is an index of Python packages, at an address of this host that a gate can reach.
type wheels struct {
	http.Server
	address string
	files   map[string][]byte
	done    chan error
}

func serveWheels() (*wheels, error) {
	address, err := hostAddress()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp4", net.JoinHostPort(address, "0"))
	if err != nil {
		return nil, err
	}
	w := &wheels{address: l.Addr().String(), files: map[string][]byte{}, done: make(chan error, 1)}
	for _, name := range wheelNames {
		w.files[name+"-1.0-py3-none-any.whl"] = wheel(name)
	}
	w.Handler, w.ReadHeaderTimeout = http.HandlerFunc(w.serve), time.Minute
	go func() { w.done <- w.Serve(l) }() // ends with Close
	return w, nil
}

// hostAddress returns an IPv4 address of this host other than loopback.
func hostAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String(), nil
		}
	}
	return "", errors.Join(err, errors.New("this host has no IPv4 address but loopback"))
}

func (w *wheels) flags() []string {
	host, _, _ := net.SplitHostPort(w.address)
	return []string{"--package-index", "python=http://" + w.address + "/simple", "--package-host", host}
}

// Close stops the index and waits.
func (w *wheels) Close() error {
	err := w.Server.Close()
	if served := <-w.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (w *wheels) serve(out http.ResponseWriter, r *http.Request) {
	at := strings.TrimPrefix(r.URL.Path, "/simple/")
	if content := w.files[strings.TrimPrefix(r.URL.Path, "/")]; content != nil {
		_, _ = out.Write(content) // a client that is gone needs none
		return
	}
	out.Header().Set("Content-Type", "text/html")
	for name, content := range w.files {
		if strings.HasPrefix(name, strings.Trim(at, "/")+"-") {
			fmt.Fprintf(out, "<a href=\"/%s#sha256=%x\">%s</a>\n", name, sha256.Sum256(content), name)
		}
	}
}

// wheel makes a package of one module.
func wheel(name string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	info, record := name+"-1.0.dist-info/", ""
	for _, f := range [][2]string{{name + ".py", "name = '" + name + "'\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", ""}} {
		record += f[0] + ",,\n"
		if f[1] == "" {
			f[1] = record
		}
		out, err := z.Create(f[0])
		if err == nil {
			_, err = out.Write([]byte(f[1]))
		}
		if err != nil {
			panic(err) // a buffer does not fail
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}
