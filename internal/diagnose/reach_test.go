package diagnose_test

import (
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/diagnose"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestNotReached: a run that could not reach a host is told why: no network, the policy, or the host.
func TestNotReached(t *testing.T) {
	const none = "The sandbox has no network. Send what the program needs with --file PATH; to reach a host, allow " +
		"it with --allow HOST."
	refused := []sandbox.NetworkRefusal{{Target: "10.0.0.5:80", Reason: "it is a private address",
		Allow: "10.0.0.5:80"}}
	missing := []sandbox.NetworkFailure{{Target: "api.test", Reason: "the name does not exist"}}
	for _, c := range []struct {
		code, stderr string
		exit         int
		mode         sandbox.NetworkMode
		refusals     []sandbox.NetworkRefusal
		failures     []sandbox.NetworkFailure
		want         string
	}{
		{code: "x", stderr: "curl: (7) Failed to connect to 8.8.8.8 port 443 after 1 ms: Couldn't connect to server",
			exit: 7, want: strings.Replace(none, "HOST", "8.8.8.8", 1)},
		{code: "x", stderr: "dial tcp 8.8.8.8:80: connect: network is unreachable", exit: 1, want: none},
		{code: "curl -s https://8.8.8.8", exit: 7, want: none}, {code: "wget -q 'http://a.test'", exit: 4, want: none},
		{code: "x=$(curl -fsS api.test:80/x)", exit: 6, want: none},
		{code: "x", stderr: "curl: (7) Failed to connect to localhost port 99 after 2 ms: Couldn't connect to server",
			exit: 7, want: ""},
		{code: "curl -s http://127.0.0.1:99/", exit: 7,
			want: "The program ended with exit code 7 and wrote nothing to stderr."},
		{code: "curl -s https://8.8.8.8", exit: 22,
			want: "The program ended with exit code 22 and wrote nothing to stderr."},

		{code: "x", stderr: "Could not resolve host: api.test", exit: 6, mode: sandbox.NetworkRestricted,
			failures: missing,
			want:     "api.test is allowed, but could not be reached: the name does not exist."},
		{code: "x", stderr: "gaierror: [Errno -2] Name or service not known", exit: 1, mode: sandbox.NetworkFull,
			failures: missing, want: "api.test is allowed, but could not be reached: the name does not exist."},
		{code: "curl -s api.test", exit: 6, mode: sandbox.NetworkRestricted,
			want: "The program could not reach a host; the network policy refused nothing."},
		{code: "x", stderr: "boom", exit: 1, mode: sandbox.NetworkFull, refusals: refused, failures: missing,
			want: "10.0.0.5:80 was refused by the network policy: it is a private address; allow it with --allow " +
				"10.0.0.5:80."},
		{code: "x", mode: sandbox.NetworkFull, failures: missing, want: ""}, // it succeeded
	} {
		r := sandbox.Result{Status: sandbox.StatusFailed, ExitCode: c.exit}
		if c.exit == 0 {
			r.Status = sandbox.StatusSucceeded
		}
		r.Stderr.Head = []byte(c.stderr)
		r.Requested.Network.Mode, r.Requested.Limits.Pids = sandbox.NetworkNone, 128
		if c.mode != "" {
			r.Requested.Network.Mode = c.mode
		}
		got := wording.CommandLine.Hint(diagnose.Hints(&diagnose.Facts{Result: &r, Network: diagnose.Network{
			Refusals: c.refusals, Failures: c.failures}, Request: &sandbox.Request{Code: []byte(c.code)}}))
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.code, c.stderr, got, c.want)
		}
	}
}
