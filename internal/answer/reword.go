package answer

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Parts of texts in the words of HTTP that the command line says otherwise.
var (
	raisedLimit = regexp.MustCompile(`([Rr])aise limits\.([a-z_]+) to ([0-9]+(?:\.[0-9]+)?)`)
	raiseLimit  = regexp.MustCompile(`([Rr])aise limits\.([a-z_]+)`)
	namedLimit  = regexp.MustCompile(`limits\.([a-z_]+)`)
	namedWaiver = regexp.MustCompile(`"allow_unenforced": \[([^\]]*)\]`)
	namedWish   = regexp.MustCompile(`"packages": \["([^"]*)"\]`)
	namedRule   = regexp.MustCompile(`"network": \{"allow": \["([^"]*)"\]\}`) // of another sandbox: what lives is changed over HTTP alone
	namedChoice = regexp.MustCompile(`"(backend|image)": "([^"]*)"`)
	namedThings = strings.NewReplacer(HTTP.input, CommandLine.input, HTTP.file, CommandLine.file,
		"create it first", "fumehood create --name NAME makes it, fumehood ps lists those that live",
		"create it again", "fumehood create --name NAME makes it again",
		"list the executions of the sandbox", "fumehood ps NAME lists the executions of the sandbox",
		"list the contexts of the sandbox", "fumehood ps shows the contexts of the sandbox",
		"send it as Authorization: Bearer KEY, or as X-API-Key: KEY", "--key-file FILE, or FUMEHOOD_KEY=KEY")
)

// Reword puts a text that a server wrote for its HTTP clients into the words of the command line.
func Reword(text string) string {
	limit := func(field string) (limitUnit, bool) {
		var l api.Limits
		for _, f := range limitFields(&l) {
			if f.field == field {
				return f, true
			}
		}
		return limitUnit{}, false
	}
	replace := func(pattern *regexp.Regexp, words func(parts []string) (string, bool)) {
		text = pattern.ReplaceAllStringFunc(text, func(found string) string {
			if said, ok := words(pattern.FindStringSubmatch(found)); ok {
				return said
			}
			return found
		})
	}
	replace(raisedLimit, func(parts []string) (string, bool) {
		f, ok := limit(parts[2])
		n, err := strconv.ParseFloat(parts[3], 64)
		if !ok || err != nil || n*f.unit > 1<<62 {
			return "", false
		}
		return parts[1] + CommandLine.raise(f.name, CommandLine.number(f.name, int64(n*f.unit)))[1:], true
	})
	replace(raiseLimit, func(parts []string) (string, bool) {
		f, ok := limit(parts[2])
		return parts[1] + CommandLine.raise(f.name, "")[1:], ok
	})
	replace(namedLimit, func(parts []string) (string, bool) {
		f, ok := limit(parts[1])
		return limitFlags[f.name], ok
	})
	replace(namedWaiver, func(parts []string) (string, bool) {
		var names []sandbox.LimitName
		for name := range strings.SplitSeq(strings.ReplaceAll(parts[1], `"`, ""), ", ") {
			names = append(names, sandbox.LimitName(name))
		}
		return CommandLine.waive(names), true
	})
	replace(namedWish, func(parts []string) (string, bool) { return "--packages " + parts[1], true })
	replace(namedRule, func(parts []string) (string, bool) { return "fumehood create --allow " + parts[1], true })
	replace(namedChoice, func(parts []string) (string, bool) { return "--" + parts[1] + " " + parts[2], true })
	return namedThings.Replace(text)
}
