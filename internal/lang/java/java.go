// Package java is Java as a language of Fumehood.
package java

import (
	"fmt"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Language is Java. The launcher compiles the one file in memory (JEP 330), without a second virtual machine. The
// program is the first class of the file, regardless of its name.
var Language = sandbox.Language{
	Name:       "java",
	Title:      "Java",
	Extensions: []string{".java"},
	FileName:   "Main.java",
	Programs:   []string{"java"},
	// On one CPU, a garbage collector with threads is slower. Performance data has no reader.
	Argv: func(program, path string) []string {
		return []string{program, "-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1", path}
	},
	// A virtual machine cannot see the limits and would take a quarter of the host's memory. It reports
	// JAVA_TOOL_OPTIONS on stderr, but not options of its command line.
	Sized: func(l sandbox.Limits) []string {
		return []string{"JAVA_TOOL_OPTIONS=" + strings.Join(sized(l), " ")}
	},
	SizedArgs:  sized,
	Installers: []string{"mvn", "gradle"},
	ModulePath: "CLASSPATH",
	ParseError: parseError,
	Diagnose:   symptoms.Diagnose,
	Missing:    sandbox.Missing{Fix: "apt install default-jdk-headless", Image: "eclipse-temurin:21"},
	Probe:      "class Main { public static void main(String[] a) { System.out.println(6 * 7); } }\n",
	Survey: `class Main { public static void main(String[] a) {
    System.out.printf("{\"version\":\"%s\",\"standard_library\":true,\"modules\":[]}%n",
      System.getProperty("java.version"));
} }
`,
}

// heapShare is the heap's percentage of the memory. The rest is for classes, compiled code, stacks and files.
const heapShare = 60

func sized(l sandbox.Limits) []string {
	return []string{fmt.Sprintf("-Xmx%dm", max(l.MemoryBytes>>20*heapShare/100, 8)),
		"-XX:+IgnoreUnrecognizedVMOptions", fmt.Sprintf("-XX:ActiveProcessorCount=%d", l.CPUs())}
}

var symptoms = trace.Symptoms{
	trace.On(sandbox.SymptomNoModule, `error: package ([\w.]+) does not exist`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomLimit, Limit: sandbox.LimitMemory},
		`java\.lang\.OutOfMemoryError`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomNoCommand, Name: "javac"},
		`Could not find or load main class jdk\.compiler|Module jdk\.compiler not found`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomNotCompiled, Name: "java"},
		`(?:^|\n)error: compilation failed\s*$`),
}

var (
	thrown   = trace.Pattern(`^Exception in thread "[^"]*" ([\w.$]+)(?:: (.*))?$`)
	compiled = trace.Pattern(`^\S+:\d+: error: (.*)$`)
)

// parseError returns the uncaught exception, or the first error of the compiler.
func parseError(stderr []byte) *sandbox.Exception {
	lines := trace.Lines(stderr)
	if len(lines) > 0 && strings.HasSuffix(lines[len(lines)-1], "error: compilation failed") {
		for i, line := range lines {
			if m := compiled().FindStringSubmatch(line); m != nil {
				return trace.Exception("compilation failed", []string{m[1]}, lines[i:])
			}
		}
		return nil
	}
	for i := len(lines) - 1; i >= 0; i-- {
		m := thrown().FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		value := []string{m[2]}
		for _, line := range lines[i+1:] {
			if strings.HasPrefix(line, "\tat ") {
				break
			}
			value = append(value, line)
		}
		return trace.Exception(m[1], value, lines[i:])
	}
	return nil
}
