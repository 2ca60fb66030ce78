package bash

import (
	"bytes"
	_ "embed"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

//go:embed survey.sh
var survey string

// commands finds the commands that a script needs. Nothing is installed for Bash: the run reports missing commands with
// their Debian packages.
var commands = &sandbox.Installer{
	Imports: Commands,
	Survey:  func(program string) []string { return []string{program, "-c", survey} },
	Valid:   func(string) bool { return false },
	Names:   debianPackages,
}

const (
	// Longer scripts are not searched. The parser is recursive, so the length limits its depth: this much takes at most
	// about 64 MB of stack, where 1 MiB of "$(" would end the process. (The checks read longer scripts, with package
	// lex.)
	maxScript   = 16 << 10 // bytes
	maxCommands = 500
)

// parsing limits the memory of the parser: it parses one script at a time.
var parsing sync.Mutex

var commandName = trace.Pattern(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)

// Commands lists the commands that a script names literally, except its functions and aliases. Commands in words like
// "$cmd" are unknown. The script is hostile.
func Commands(code []byte) []sandbox.Import {
	found := []sandbox.Import{}
	if len(code) > maxScript {
		return found
	}
	parsing.Lock()
	defer parsing.Unlock()
	script, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(code), "")
	if err != nil {
		return found // Bash reports the error
	}
	own, seen := map[string]bool{}, map[string]bool{}
	syntax.Walk(script, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			own[n.Name.Value] = true
		case *syntax.CallExpr:
			if len(n.Args) > 0 && n.Args[0].Lit() == "alias" {
				for _, a := range n.Args[1:] {
					if len(a.Parts) > 0 { // the value may be quoted
						if first, ok := a.Parts[0].(*syntax.Lit); ok {
							name, _, _ := strings.Cut(first.Value, "=")
							own[name] = true
						}
					}
				}
			}
		}
		return true
	})
	syntax.Walk(script, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		words := call.Args
		for len(words) > 1 && slices.Contains(runsNext, words[0].Lit()) {
			words = words[1:]
		}
		name := words[0].Lit()
		if !own[name] && !seen[name] && commandName().MatchString(name) && len(found) < maxCommands {
			seen[name] = true
			found = append(found, sandbox.Import{Name: name, Line: int(words[0].Pos().Line())})
		}
		return true
	})
	return found
}

// runsNext lists commands whose first argument is another command.
var runsNext = strings.Fields("sudo exec command builtin time nohup nice")

// debianPackages maps commands that a root often lacks to Debian packages.
var debianPackages = debianTable(`
	ab=apache2-utils ack ag=silversearcher-ag aria2c=aria2 autoconf automake aws=awscli bc bsdtar=libarchive-tools
	bwrap=bubblewrap bzip2 cargo clang cmake column=bsdextrautils convert=imagemagick cpio csvcut=csvkit csvsql=csvkit
	curl dc dig=dnsutils docker=docker.io dot=graphviz emacs=emacs-nox exiftool=libimage-exiftool-perl expect
	fd=fd-find fdfind=fd-find ffmpeg ffprobe=ffmpeg figlet file fish fzf g++ gawk gcc gdb gfortran gh git
	gnuplot=gnuplot-nox go=golang-go gpg=gnupg gs=ghostscript host=bind9-host htop hyperfine iconv=libc-bin
	identify=imagemagick ifconfig=net-tools inotifywait=inotify-tools ip=iproute2 iperf3 java=default-jre-headless
	javac=default-jdk-headless jq julia killall=psmisc latexmk less lsof lua=lua5.4 lynx magick=imagemagick make
	man=man-db mlr=miller mogrify=imagemagick montage=imagemagick mysql=default-mysql-client nano nc=netcat-openbsd
	netstat=net-tools nmap node=nodejs nodejs npm npx=npm nslookup=dnsutils octave openssl pandoc parallel patch
	pdflatex=texlive-latex-base pdfinfo=poppler-utils pdftoppm=poppler-utils pdftotext=poppler-utils
	pdfunite=poppler-utils perl php=php-cli ping=iputils-ping pip=python3-pip pip3=python3-pip pkg-config=pkgconf
	pkill=procps pgrep=procps ps=procps psql=postgresql-client pv python=python-is-python3 python3 qpdf R=r-base-core
	Rscript=r-base-core rclone redis-cli=redis-tools rg=ripgrep rsync ruby rustc screen scp=openssh-client shellcheck
	socat sox sqlite3 ssh=openssh-client ssh-keygen=openssh-client strace sudo swift=swiftlang tcpdump
	tesseract=tesseract-ocr tidy tmux top=procps traceroute tree tsc=node-typescript unrar=unrar-free unxz=xz-utils
	unzip uuidgen=uuid-runtime valgrind vi=vim-tiny vim watch=procps wget whois wkhtmltopdf xelatex=texlive-xetex
	xmllint=libxml2-utils xmlstarlet xsltproc xxd xz=xz-utils yarn=yarnpkg yq zip zsh zstd 7z=7zip 7za=7zip exa bat
	duf ncdu entr envsubst=gettext-base bison flex nasm sha3sum=libdigest-sha3-perl ripgrep crontab=cron at
	mail=bsd-mailx mutt sponge=moreutils ts=moreutils`)

// debianTable reads words "COMMAND=PACKAGE", or "COMMAND" if the package has the same name.
func debianTable(words string) map[string]string {
	table := map[string]string{}
	for word := range strings.FieldsSeq(words) {
		command, name, ok := strings.Cut(word, "=")
		if !ok {
			name = command
		}
		table[command] = name
	}
	return table
}
