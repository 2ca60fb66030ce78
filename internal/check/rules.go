package check

import (
	"regexp"
	"sync"
)

// rule is one rule. Only what benign programs hardly ever have refuses: see TestBenign.
type rule struct {
	id, advice string
	refuses    bool
}

var rules = []rule{
	{"shell", "Start programs by a list of arguments, without a shell, or do it in the language itself.", true},
	{"process", "Other programs run under the limits of the sandbox; its policy can list which may.", false},
	{"eval", "Text that is executed cannot be checked. Call functions, or parse data with a parser.", false},
	{"hidden-code", "Code is decoded or fetched, and executed: send it as it is.", true},
	{"outside", "Only /workspace, /tmp and the home are writable, and nothing outside of /workspace is handed back.", false},
	{"sensitive-path", "Paths of keys and of the host's controls are of no use in a sandbox.", true},
	{"network", "There is no network unless the policy of the sandbox allows a host.", false},
	{"reverse-shell", "A shell that is served over the network gives the sandbox to somebody else.", true},
	{"fork-bomb", "Processes that multiply without end reach the limit of processes, and get nothing done.", true},
	{"destroy", "It removes or overwrites all there is.", true},
	{"miner", "Mining is not what this is for.", true},
	{"credential", "Whoever reads the code has it. Bind it to a host as a secret of the sandbox.", false},
	{"unchecked", "Send less text, or turn the checks off.", true},
}

// call is what a name of a program means: with ".*", all names below it.
type call struct{ name, rule string }

var pythonCalls = []call{
	{"os.system", "shell"}, {"os.popen", "shell"}, {"subprocess.getoutput", "shell"}, {"subprocess.getstatusoutput", "shell"}, {"commands.getoutput", "shell"},
	{"subprocess.run", "process"}, {"subprocess.call", "process"}, {"subprocess.check_call", "process"}, {"subprocess.check_output", "process"},
	{"subprocess.Popen", "process"}, {"os.execl", "process"}, {"os.execle", "process"}, {"os.execlp", "process"}, {"os.execv", "process"}, {"os.execve", "process"},
	{"os.execvp", "process"}, {"os.execvpe", "process"}, {"os.spawnl", "process"}, {"os.spawnv", "process"}, {"os.spawnvp", "process"}, {"os.posix_spawn", "process"},
	{"os.posix_spawnp", "process"}, {"pty.spawn", "process"}, {"asyncio.create_subprocess_exec", "process"}, {"asyncio.create_subprocess_shell", "shell"},
	{"eval", "eval"}, {"exec", "eval"}, {"__import__", "eval"},
}

// pythonNetwork are modules whose import means the network.
var pythonNetwork = []string{"socket", "requests", "urllib.request", "urllib3", "http.client", "httpx", "aiohttp", "ftplib", "smtplib", "telnetlib", "paramiko",
	"websocket", "websockets", "xmlrpc.client", "imaplib", "poplib"}

var scriptCalls = []call{
	{"child_process.exec", "shell"}, {"child_process.execSync", "shell"}, {"child_process.spawn", "process"}, {"child_process.spawnSync", "process"},
	{"child_process.execFile", "process"}, {"child_process.execFileSync", "process"}, {"child_process.fork", "process"},
	{"eval", "eval"}, {"Function", "eval"}, {"vm.runInThisContext", "eval"}, {"vm.runInNewContext", "eval"}, {"fetch", "network"}, {"WebSocket", "network"},
	{"XMLHttpRequest", "network"},
}

var scriptNetwork = []string{"http", "https", "http2", "net", "tls", "dgram", "undici", "axios", "node-fetch", "got", "ws", "superagent"}

// decoders make text of text that nobody can read, or fetch it.
var decoders = map[string]bool{"b64decode": true, "b32decode": true, "decompress": true, "fromhex": true, "unhexlify": true, "urlopen": true, "loads": false,
	"atob": true, "gunzipSync": true, "inflateSync": true}

// openers read or write the file that their first argument names.
var openers = map[string]bool{"open": true, "io.open": true, "pathlib.Path": true, "os.remove": true, "os.unlink": true, "shutil.rmtree": true, "os.listdir": true,
	"fs.readFileSync": true, "fs.readFile": true, "fs.writeFileSync": true, "fs.writeFile": true, "fs.appendFileSync": true, "fs.readdirSync": true, "fs.rmSync": true,
	"fs.unlinkSync": true, "fs.createWriteStream": true, "fs.createReadStream": true, "readFileSync": true, "writeFileSync": true}

// inside are places that programs have files in, or that any program may read.
var inside = []string{"/workspace", "/tmp", "/home/agent", "/dev/null", "/dev/zero", "/dev/std", "/dev/fd/", "/dev/urandom", "/dev/random", "/dev/shm", "/dev/tty", "/usr/", "/proc/self/status",
	"/proc/cpuinfo", "/proc/meminfo", "/etc/os-release"}

var shellNetwork = []string{"curl", "wget", "nc", "ncat", "netcat", "telnet", "ssh", "scp", "sftp", "ftp", "socat", "rsync"}

var shells = []string{"sh", "bash", "dash", "zsh", "python", "python3", "perl", "ruby", "node"}

// everything are what nobody removes on purpose.
var everything = []string{"/", "/*", "~", "~/", "~/*", "$HOME", "$HOME/", "$HOME/*", "/home", "/usr", "/etc", "/bin", "/lib", "/var", "/workspace", "/workspace/*"}

// textRule is a pattern in the text of any language, comments and strings too. A text without any of its words is not searched.
type textRule struct {
	rule, what string
	words      []string
	pattern    func() *regexp.Regexp
}

func pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

var textRules = []textRule{
	{"credential", "a private key", []string{"PRIVATE KEY-----"}, pattern(`-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s*\\?n?\s*[A-Za-z0-9+/]{20}`)},
	{"credential", "an AWS key", []string{"AKIA", "ASIA"}, pattern(`\b(?:AKIA|ASIA)[A-Z2-7]{16}\b`)},
	{"credential", "a GitHub token", []string{"ghp_", "gho_", "ghs_", "github_pat_"}, pattern(`\b(?:gh[pos]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50,})`)},
	{"credential", "a Slack token", []string{"xoxb-", "xoxp-", "xoxa-"}, pattern(`\bxox[bpa]-[0-9A-Za-z-]{20,}`)},
	{"credential", "an API key", []string{"sk-", "sk_live_", "AIza"}, pattern(`\b(?:sk-(?:ant-|proj-)?[A-Za-z0-9_-]{32,}|sk_live_[A-Za-z0-9]{20,}|AIza[0-9A-Za-z_-]{35})`)},
	{"miner", "a mining pool", []string{"stratum+"}, pattern(`\bstratum\+(?:tcp|ssl|udp)://[\w.-]+`)},
	{"miner", "a miner", []string{"xmrig", "minerd", "coinhive", "cpuminer", "nicehash"}, pattern(`(?i)\b(?:xmrig|minerd|coinhive|cpuminer|nicehash)\b`)},
}

// sensitiveWords are parts of what sensitive matches: cheaper than it.
var sensitiveWords = []string{"/etc/s", "/etc/gs", "/.", ".sock", "/dev/", "/proc/", "/sys/", "release_agent"}

// sensitive are paths in strings and words. "~" is any home.
var sensitive = pattern(`(?:^|[\s="'@:])(/etc/(?:shadow|gshadow|sudoers)\b|(?:~|\$HOME|/root|/home/[\w.-]+)/\.(?:ssh/(?:id_\w+|authorized_keys)|aws/credentials|kube/config|netrc|docker/config\.json|gnupg/)|` +
	`/(?:var/)?run/(?:docker|containerd/containerd|crio/crio)\.sock|/dev/k?mem\b|/proc/(?:kcore|sysrq-trigger|1/(?:root|environ|mem))|/proc/self/mem\b|/sys/kernel/(?:core_pattern|uevent_helper)|` +
	`/proc/sys/kernel/core_pattern|release_agent\b)`)
