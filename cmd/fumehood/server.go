package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/apiclient"
	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const maxKeyFile = 4 << 10 // bytes

// serverFlags choose the server of commands for living sandboxes.
type serverFlags struct {
	server  string
	keyFile string
}

func (f *serverFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.server, "server", "", "`URL` of the server, or unix:PATH (default that of this user here)")
	flags.StringVar(&f.keyFile, "key-file", "", "`FILE` with the API key (or the key itself in FUMEHOOD_KEY)")
}

// openClient returns a client of the server. The socket of this user needs no key.
func (a *app) openClient(f *serverFlags) (*apiclient.Client, error) {
	config := apiclient.Config{Server: f.server, Agent: "fumehood/" + versionOf()}
	if config.Server == "" {
		if err := rundir.Check(a.runDir()); err != nil {
			return nil, err
		}
		config.Server = apiclient.UnixPrefix + filepath.Join(a.runDir(), localSocket)
	}
	config.Key, _ = a.LookupEnv("FUMEHOOD_KEY")
	if f.keyFile != "" {
		text, err := a.readNamed(f.keyFile, maxKeyFile, sandbox.FormatBytes(maxKeyFile))
		if err != nil {
			return nil, &sandbox.Error{Kind: sandbox.KindOf(invalid(err)), Op: "--key-file", Err: err}
		}
		config.Key = string(text)
	}
	config.Key = strings.TrimSpace(config.Key)
	if strings.ContainsAny(config.Key, " \t\r\n") {
		return nil, sandbox.Invalidf("--key-file", "holds more than one key, or no key")
	}
	return apiclient.New(config)
}
