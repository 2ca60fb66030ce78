package diagnose

import (
	"net"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// reachSymptoms are messages of programs that cannot reach a host, in lower case.
var reachSymptoms = []string{"temporary failure in name resolution", "network is unreachable", "could not resolve host",
	"no such host"}

// hostSymptom finds the host in curl's messages. That of a connection does not say why it failed.
var hostSymptom = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:Failed to connect to (\S+) port \d|Could not resolve host: (\S+))`)
})

// complainsOfNetwork reports whether a text, which comes from the program, says that it could not reach another host,
// and its name if it is known.
func complainsOfNetwork(text string) (host string, complains bool) {
	if found := hostSymptom().FindStringSubmatch(text); found != nil {
		host = found[1] + found[2]
		return host, !isOwn(host)
	}
	lower := strings.ToLower(text)
	return "", slices.ContainsFunc(reachSymptoms, func(word string) bool { return strings.Contains(lower, word) })
}

// isOwn reports whether a host is the sandbox itself.
func isOwn(host string) bool {
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && (a.IsLoopback() || a.IsUnspecified())
}

// silentClients have the exit codes of programs that could not reach a host, which may not print why (curl -s).
var silentClients = map[string][]int{"curl": {6, 7}, "wget": {4}}

// failedSilently reports whether a client ended the run without a message, because it could not reach another host.
func (f *Facts) failedSilently() bool {
	if len(f.Result.Stderr.Head) > 0 {
		return false
	}
	text := string(f.Request.Code) + " " + strings.Join(f.Request.Command, " ")
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n;|&()'\"", r) })
	return slices.ContainsFunc(words, func(word string) bool {
		return slices.Contains(silentClients[path.Base(word)], f.Result.ExitCode)
	}) && !slices.ContainsFunc(words, func(word string) bool {
		if _, rest, isURL := strings.Cut(word, "://"); isURL {
			word = rest
		}
		host, _, _ := strings.Cut(word, "/")
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		return isOwn(host)
	})
}

// reachHint returns the hint about a host that could not be reached. Its name may be "".
func (f *Facts) reachHint(host string) sandbox.Hint {
	if f.noNetwork() {
		return sandbox.HintNoNetwork{Host: host, Living: f.Living}
	}
	return sandbox.HintUnreachable
}
