package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/egress"
	"github.com/fumehood-dev/fumehood/sandbox"
)

type networkFlags struct {
	network sandbox.NetworkPolicy // without secrets
	secrets []string
	headers []string // of secrets
}

func (f *networkFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar((*string)(&f.network.Mode), "network", "",
		"`MODE` none, restricted or full (default none; restricted with --allow)")
	flags.StringSliceVar(&f.network.Allow, "allow", nil,
		"reach `NAME`, '*.NAME' or an address, perhaps with :PORT (repeatable)")
	flags.StringSliceVar(&f.network.Deny, "deny", nil,
		"never reach `NAME`, as in --allow, which it overrides (repeatable)")
	flags.StringSliceVar(&f.network.Inspect, "inspect", nil, "read HTTPS requests to `NAME`, for the log (repeatable)")
	flags.StringArrayVar(&f.secrets, "secret", nil,
		"send the variable only to `NAME@HOST`, or with :body added (repeatable)")
	flags.StringArrayVar(&f.headers, "secret-header", nil,
		"send the secret only in this header, `NAME=HEADER` (repeatable)")
	completions(cmd, "network",
		string(sandbox.NetworkNone), string(sandbox.NetworkRestricted), string(sandbox.NetworkFull))
}

func (a *app) policy(f *networkFlags) (sandbox.NetworkPolicy, error) {
	p := f.network
	for _, text := range f.secrets {
		s, err := a.secret(text)
		if err != nil {
			return p, err
		}
		p.Secrets = append(p.Secrets, s)
	}
	for _, text := range f.headers {
		name, header, _ := strings.Cut(text, "=")
		at := slices.IndexFunc(p.Secrets, func(s sandbox.Secret) bool { return s.Name == name })
		if at < 0 || header == "" {
			return p, invalid("--secret-header", "is not NAME=HEADER, the name of a --secret and a header",
				"--secret EXAMPLE_KEY@api.example.org --secret-header EXAMPLE_KEY=X-Key")
		}
		p.Secrets[at].Headers = append(p.Secrets[at].Headers, header)
	}
	p.Mode = p.Wanted()
	return p, egress.Check(p)
}

// secret parses NAME@HOST[,HOST][:body,query,path]. The value is in our environment: other users can read command
// lines.
func (a *app) secret(text string) (s sandbox.Secret, err error) {
	name, hosts, ok := strings.Cut(text, "@")
	if !ok || name == "" || hosts == "" || strings.Contains(name, "=") {
		// Without the text, which may be the secret.
		return s, invalid("--secret", "is not NAME@HOST, a variable of this environment and its host",
			"--secret GITHUB_TOKEN@api.github.com")
	}
	s = sandbox.Secret{Name: name}
	if at := strings.LastIndexByte(hosts, ':'); at >= 0 {
		for place := range strings.SplitSeq(hosts[at+1:], ",") {
			s.Places = append(s.Places, sandbox.SecretPlace(place))
		}
		if c := hosts[at+1:] + " "; c[0] >= '0' && c[0] <= '9' {
			s.Places = nil // it is a port
		} else {
			hosts = hosts[:at]
		}
	}
	s.Hosts = strings.Split(hosts, ",")
	value, ok := a.LookupEnv(name)
	if !ok {
		return s, sandbox.Invalidf("--secret", "%.64q is not set", name)
	}
	s.Value = value
	return s, nil
}
