package check

import (
	"regexp"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
)

// rule is one rule. Only rules that benign programs hardly ever break refuse the code (TestBenign).
type rule struct {
	id, advice string
	refuses    bool
}

var rules = []rule{
	{"shell", "Start programs with a list of arguments and without a shell, or use functions of the language.", true},
	{"process", "Other programs run under the limits of the sandbox; its policy can restrict which may run.", false},
	{"eval", "Generated code cannot be checked. Call functions, or parse data with a parser.", false},
	{"hidden-code", "The code executes text that it decodes or downloads. Send that text as code.", true},
	{"outside", "Only /workspace, /tmp and the home are writable, and only files in /workspace are returned.", false},
	{"sensitive-path", "A sandbox has no keys and no controls of the host. Remove the path.", true},
	{"network", "The sandbox has no network unless its policy allows a host.", false},
	{"reverse-shell", "A shell on a network connection gives others control of the sandbox.", true},
	{"fork-bomb", "Endlessly multiplying processes only reach the limit of processes.", true},
	{"destroy", "The command deletes or overwrites all files.", true},
	{"miner", "Mining is not allowed.", true},
	{"credential", "Every reader of the code can use it. Bind it to a host as a secret of the sandbox.", false},
	{"unchecked", "Send less text, or disable the checks.", true},
}

// pythonCalls and scriptCalls list the full names of functions by the rules that concern their calls.
var pythonCalls = map[string]string{
	"shell": `os.system os.popen subprocess.getoutput subprocess.getstatusoutput commands.getoutput
		asyncio.create_subprocess_shell`,
	"process": `subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen os.execl
		os.execle os.execlp os.execv os.execve os.execvp os.execvpe os.spawnl os.spawnv os.spawnvp os.posix_spawn
		os.posix_spawnp pty.spawn asyncio.create_subprocess_exec`,
	"eval": `eval exec __import__`,
}

// pythonNetwork lists modules that use the network.
var pythonNetwork = strings.Fields(`socket requests urllib.request urllib3 http.client httpx aiohttp ftplib smtplib
	telnetlib paramiko websocket websockets xmlrpc.client imaplib poplib`)

var scriptCalls = map[string]string{
	"shell": `child_process.exec child_process.execSync`,
	"process": `child_process.spawn child_process.spawnSync child_process.execFile child_process.execFileSync
		child_process.fork`,
	"eval":    `eval Function vm.runInThisContext vm.runInNewContext`,
	"network": `fetch WebSocket XMLHttpRequest`,
}

var scriptNetwork = strings.Fields(`http https http2 net tls dgram undici axios node-fetch got ws superagent`)

// decoders are functions that decode or download text.
var decoders = strings.Fields(`b64decode b32decode decompress fromhex unhexlify urlopen atob gunzipSync inflateSync`)

// openers are functions that access the file in their first argument.
var openers = strings.Fields(`open io.open pathlib.Path os.remove os.unlink shutil.rmtree os.listdir fs.readFileSync
	fs.readFile fs.writeFileSync fs.writeFile fs.appendFileSync fs.readdirSync fs.rmSync fs.unlinkSync
	fs.createWriteStream fs.createReadStream readFileSync writeFileSync`)

// inside lists the places where programs have files, and those that any program may read.
var inside = strings.Fields(`/workspace /tmp /home/agent /dev/null /dev/zero /dev/std /dev/fd/ /dev/urandom
	/dev/random /dev/shm /dev/tty /usr/ /proc/self/status /proc/cpuinfo /proc/meminfo /etc/os-release`)

var shellNetwork = strings.Fields(`curl wget nc ncat netcat telnet ssh scp sftp ftp socat rsync`)

var shells = strings.Fields(`sh bash dash zsh python python3 perl ruby node`)

// everything lists the paths that nobody deletes on purpose.
var everything = strings.Fields(`/ /* ~ ~/ ~/* $HOME $HOME/ $HOME/* /home /usr /etc /bin /lib /var
	/workspace /workspace/*`)

// textRule searches the text of any language, comments and strings included, for a pattern. It skips a text without any
// of its words.
type textRule struct {
	rule, what string
	words      []string
	pattern    func() *regexp.Regexp
}

var textRules = []textRule{
	{"credential", "a private key", []string{"PRIVATE KEY-----"},
		trace.Pattern(`-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s*\\?n?\s*[A-Za-z0-9+/]{20}`)},
	{"credential", "an AWS key", []string{"AKIA", "ASIA"},
		trace.Pattern(`\b(?:AKIA|ASIA)[A-Z2-7]{16}\b`)},
	{"credential", "a GitHub token", []string{"ghp_", "gho_", "ghs_", "github_pat_"},
		trace.Pattern(`\b(?:gh[pos]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50,})`)},
	{"credential", "a Slack token", []string{"xoxb-", "xoxp-", "xoxa-"},
		trace.Pattern(`\bxox[bpa]-[0-9A-Za-z-]{20,}`)},
	{"credential", "an API key", []string{"sk-", "sk_live_", "AIza"},
		trace.Pattern(`\b(?:sk-(?:ant-|proj-)?[A-Za-z0-9_-]{32,}|sk_live_[A-Za-z0-9]{20,}|AIza[0-9A-Za-z_-]{35})`)},
	{"miner", "a mining pool", []string{"stratum+"},
		trace.Pattern(`\bstratum\+(?:tcp|ssl|udp)://[\w.-]+`)},
	{"miner", "a miner", []string{"xmrig", "minerd", "coinhive", "cpuminer", "nicehash"},
		trace.Pattern(`(?i)\b(?:xmrig|minerd|coinhive|cpuminer|nicehash)\b`)},
}

// sensitiveWords are parts of all matches of sensitive. Searching for them is cheaper.
var sensitiveWords = []string{"/etc/s", "/etc/gs", "/.", ".sock", "/dev/", "/proc/", "/sys/", "release_agent"}

// sensitive matches paths in strings and words. "~" stands for any home.
var sensitive = trace.Pattern(`(?:^|[\s="'@:])(/etc/(?:shadow|gshadow|sudoers)\b|` +
	`(?:~|\$HOME|/root|/home/[\w.-]+)/\.(?:ssh/(?:id_\w+|authorized_keys)|` +
	`aws/credentials|kube/config|netrc|docker/config\.json|gnupg/)|` +
	`/(?:var/)?run/(?:docker|containerd/containerd|crio/crio)\.sock|/dev/k?mem\b|` +
	`/proc/(?:kcore|sysrq-trigger|1/(?:root|environ|mem))|/proc/self/mem\b|` +
	`/sys/kernel/(?:core_pattern|uevent_helper)|` +
	`/proc/sys/kernel/core_pattern|release_agent\b)`)
