// Command static needs no libraries: the only program of an image. It prints who it is, serves a greeting on a port, or
// fetches it.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
)

const address = "127.0.0.1:8080"

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(what string) error {
	switch what {
	case "id":
		_, err := os.ReadFile("/secret")
		fmt.Println(os.Getuid(), os.Getgid(), err)
		return nil
	case "get":
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		_, err = io.Copy(os.Stdout, conn)
		return err
	}
	listener, err := net.Listen("tcp", address)
	for err == nil {
		var conn net.Conn
		if conn, err = listener.Accept(); err == nil {
			fmt.Fprintln(conn, "hello")
			err = conn.Close()
		}
	}
	return err
}
