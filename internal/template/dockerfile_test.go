package template

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestDockerfile: the parser keeps the line of each instruction; the error of an unsupported one names its line.
func TestDockerfile(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"all": {"# syntax=docker/dockerfile:1\nARG V=1\nFROM a:$V AS one\nENV A=1 B=2\nRUN [\"true\"]\nFROM scratch\n" +
			"COPY --from=one --chown=1:2 /x /y/\nADD z .\nWORKDIR /w\nUSER u\n" +
			"SHELL [\"/bin/bash\", \"-c\"]\nCMD run it\n" +
			"ENTRYPOINT [\"/e\"]",
			"FROM a:$V one | 4 ENV [{A 1 true} {B 2 true}] | 5 RUN [true] false | FROM scratch  | " +
				"7 COPY one [/x] /y/ 1:2 | 8 ADD  [z] .  | 9 WORKDIR [/w] false | 10 USER [u] false | " +
				"11 SHELL [/bin/bash -c] false | 12 CMD [run it] true | 13 ENTRYPOINT [/e] false"},
		"a here-document":    {"FROM a\nRUN <<EOF\necho 1\necho 2\nEOF\n", "FROM a  | 2 RUN [echo 1\necho 2\n] true"},
		"of a command":       {"FROM a\nRUN cat <<EOF > /x\n1\nEOF\n", "FROM a  | 2 RUN [cat <<EOF > /x\n1\nEOF] true"},
		"a long line":        {"FROM a\nRUN one \\\n  two\n", "FROM a  | 2 RUN [one   two] true"},
		"unknown":            {"FROM a\n\nFETCH b\n", "error: Dockerfile: line 3: unknown instruction: FETCH"},
		"VOLUME":             {"FROM a\nVOLUME /d\n", "error: Dockerfile line 2: VOLUME is not supported (remove"},
		"ONBUILD":            {"FROM a\nONBUILD RUN x\n", "error: Dockerfile line 2: ONBUILD is not supported"},
		"a URL":              {"FROM a\nADD https://x.org/y /\n", "error: Dockerfile line 2: ADD of \"https:"},
		"a mount":            {"FROM a\nRUN --mount=type=secret,id=x true\n", "error: Dockerfile line 2: RUN --mount"},
		"a platform":         {"FROM --platform=linux/arm64 a\n", "error: Dockerfile line 1: FROM --platform is"},
		"nothing":            {"# only a comment\n", "error: Dockerfile: "},
		"a step before FROM": {"RUN x\n", "error: Dockerfile: "},
		"binary":             {"\x00\xff\x00", "error: Dockerfile: "},
		"large":              {"FROM a\n" + strings.Repeat("#", MaxDockerfile), "error: Dockerfile: it is over"},
		"many steps":         {"FROM a\n" + strings.Repeat("USER a\n", MaxSteps+1), "error: Dockerfile line 1: more"},
	} {
		r, err := parseDockerfile([]byte(test.text))
		got := show(r)
		if err != nil {
			got = "error: " + err.Error()
			if kind := sandbox.KindOf(err); kind != sandbox.Invalid && kind != sandbox.TooLarge {
				t.Errorf("%s: the error is %s", name, kind)
			}
		}
		if got != test.want && !(err != nil && strings.HasPrefix(got, test.want)) {
			t.Errorf("%s: %s\nwant %s", name, got, test.want)
		}
	}
}

func show(r *recipe) string {
	if r == nil {
		return ""
	}
	var list []string
	for _, s := range r.stages {
		list = append(list, fmt.Sprintf("FROM %s %s", s.base, s.name))
		for _, i := range s.instructions {
			text := fmt.Sprintf("%d %s ", i.line, i.kind)
			switch {
			case i.pairs != nil:
				text += fmt.Sprint(i.pairs)
			case i.words != nil:
				text += fmt.Sprint(i.words, i.inShell)
			default:
				text += fmt.Sprintf("%s %s %s %s", i.copies.from, i.copies.sources, i.copies.to, i.copies.owner)
			}
			list = append(list, text)
		}
	}
	return strings.Join(list, " | ")
}

// FuzzDockerfile: no text makes the parser panic.
func FuzzDockerfile(f *testing.F) {
	f.Add("FROM a\nRUN <<EOF\nx\nEOF\nCOPY <<F /g\ny\nF\n")
	f.Add("# escape=`\nARG A\nFROM $A\nENV a b\nHEALTHCHECK CMD x\n")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = parseDockerfile([]byte(text)) })
}
