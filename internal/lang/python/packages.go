package python

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/lang/lex"
	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var (
	//go:embed packages/survey.py
	survey string
	//go:embed packages/rest.py
	surveyRest string
	//go:embed packages/install.py
	install string
)

const layerAt = "/opt/fumehood/python"

// The survey reads its question in one of two ways. The JSON that Go writes is a Python expression.
const (
	readQuestion = "import sys\nquestion = eval(sys.stdin.buffer.read().decode(), " +
		"{'__builtins__': {}, 'true': True, 'false': False, 'null': None})\n"
	isolate = "import sys\nsys.path[:] = [p for p in sys.path if p not in ('', '/workspace')]\n" +
		"true, false, null = True, False, None\n"
)

// surveyProgram contains the rest as a string. Go's ASCII quoting is valid in Python.
var surveyProgram = sync.OnceValue(func() string {
	return "REST = " + strconv.QuoteToASCII(surveyRest) + "\n" + survey
})

// installer installs with uv if the root has it, otherwise with pip. Its programs run isolated (-I), so that files of
// the workspace cannot replace their modules. PYTHONPATH names the layer, so its packages take precedence over those of
// the root.
var installer = &sandbox.Installer{
	Name:      "python",
	At:        layerAt,
	Path:      []string{"PYTHONPATH=" + layerAt, "PATH=" + layerAt + "/bin"},
	NeedsNone: needsNone,
	Imports:   imports,
	Magic:     magic,
	List:      listed,
	Plain:     plainly,
	Survey:    func(program string) []string { return []string{program, "-I", "-c", readQuestion + surveyProgram()} },
	SurveyCode: func(question []byte) []byte {
		return []byte(isolate + "question = " + string(question) + "\n" + surveyProgram())
	},
	Folder:    &sandbox.PackageFolder{Present: presentPackages, Files: filesOf},
	Install:   func(program string) []string { return []string{program, "-I", "-c", install} },
	Names:     packageNames,
	Valid:     validRequirement,
	ValidLock: validLock,
	Witnesses: []string{"usr/bin/python3", "usr/lib/python3/dist-packages", "usr/local/bin/python3",
		"usr/local/lib/python3.11/dist-packages"},
	Fix:     "install the package python3-pip, or uv, there",
	Folds:   true,
	Popular: popular,
}

// installLine matches a line of a notebook that installs packages. The driver of contexts has the same pattern.
var installLine = trace.Pattern(`^[%!]?[ \t]*(?:python3?[ \t]+-m[ \t]+)?(?:pip3?|uv[ \t]+pip)[ \t]+install[ \t]+(.*)`)

// magic returns what such lines install.
func magic(code []byte) (all sandbox.MagicInstalls) {
	for _, m := range installLines(string(code)) {
		one := installed(m.words, maxInstalled-len(all.Requirements)-len(all.Files))
		all.Requirements = append(all.Requirements, one.Requirements...)
		all.Upgrades = append(all.Upgrades, one.Upgrades...)
		all.Files = append(all.Files, one.Files...)
	}
	return all
}

// magicLine is a line that installs.
type magicLine struct {
	lex.Token
	words string // after "install"
}

func installLines(code string) (found []magicLine) {
	if !strings.Contains(code, "pip") {
		return nil
	}
	var window [3]lex.Token // a token and the next two
	take := func(next lex.Token) {
		window = [3]lex.Token{window[1], window[2], next}
		t := commandAt(window, code)
		if t.Kind == lex.Command && len(found) < maxMagic && strings.Contains(t.Text, "install") {
			if m := installLine().FindStringSubmatch(t.Text); m != nil {
				found = append(found, magicLine{t, m[1]})
			}
		}
	}
	lex.EachPython(code, take)
	take(lex.Token{})
	take(lex.Token{})
	return found
}

// commandAt returns the first of three tokens. A line that begins with "pip install" is a command, as in IPython.
func commandAt(window [3]lex.Token, code string) lex.Token {
	t, next := window[0], window[1]
	if next.Word("pip") && t.Word("uv") {
		next = window[2]
	}
	if !t.First || !next.Word("install") || !t.Word("pip") && !t.Word("pip3") && !t.Word("uv") {
		return t
	}
	line, _, _ := strings.Cut(code[t.At:], "\n")
	return lex.Token{Kind: lex.Command, At: t.At, Text: strings.TrimSuffix(line, "\r")}
}

// harmless matches the arguments of a command that only installs packages.
var harmless = sync.OnceValue(func() *regexp.Regexp {
	const option = `-q|-qq|-U|-qU|--quiet|--upgrade|--user|--no-input|--no-cache-dir|` +
		`--disable-pip-version-check|--system|--break-system-packages|-r[ \t]+requirements\.txt`
	const silence = `[12&]?>[ \t]*/dev/null|2>&1`
	const word = `'[^']*'|"[^"]*"|[A-Za-z0-9][^\s;&|<>()'"$` + "`" + `]*`
	return regexp.MustCompile(`^(?:(?:` + option + `|` + silence + `|` + word + `)(?:[ \t]+|$))*(?:#.*)?$`)
})

// plainly replaces lines that only install packages by "pass", because the interpreter does not support them.
func plainly(code []byte) []byte {
	var plain []byte
	at := 0
	for _, m := range installLines(string(code)) {
		if len(m.words) <= maxHarmless && harmless().MatchString(strings.TrimSpace(m.words)) {
			plain = append(append(plain, code[at:m.At]...), "pass"...)
			at = int(m.At) + len(m.Text)
		}
	}
	return append(plain, code[at:]...)
}

// Bounds for one code.
const (
	maxMagic     = 100                         // lines that install
	maxHarmless  = 64 << 10                    // bytes of one that is replaced
	maxInstalled = sandbox.MaxRequirements + 1 // requirements in them; one more than a request may have
)

// takesValue lists pip's options whose value is the next word.
var takesValue = strings.Fields(`-r --requirement -c --constraint -e --editable -i --index-url --extra-index-url -f
	--find-links -t --target`)

// installed returns what the words after "install" install, at most that many requirements and files.
func installed(words string, most int) (found sandbox.MagicInstalls) {
	option, upgrade := "", false // the option whose value comes next
	for word := range strings.FieldsSeq(words) {
		if len(found.Requirements)+len(found.Files) >= most || strings.ContainsAny(word[:1], "#&|;<>") ||
			strings.HasPrefix(word, "2>") {
			break // the end of pip's arguments
		}
		word, last := strings.CutSuffix(word, ";")
		computed := strings.ContainsAny(word, "{$`") // known once the code runs; then pip installs it
		word = strings.Trim(word, `'"`)
		file := fileOption().FindStringSubmatch(word)
		switch {
		case computed && option == "":
		case !computed && (option == "-r" || option == "--requirement"):
			found.Files = append(found.Files, word)
		case option != "" || word == "":
		case file != nil:
			found.Files = append(found.Files, file[1])
		case word[0] != '-':
			found.Requirements = append(found.Requirements, word)
		case word == "-U" || word == "-qU" || word == "--upgrade":
			upgrade = true
		}
		if option = ""; slices.Contains(takesValue, word) {
			option = word
		}
		if last {
			break
		}
	}
	if upgrade {
		found.Upgrades = found.Requirements
	}
	return found
}

// fileOption matches -r with its value.
var fileOption = trace.Pattern(`^(?:-r|--requirement=)(.+)$`)

// listed returns the requirements in a requirements.txt, and the files that it includes.
func listed(text []byte) (requirements, files []string, err error) {
	joined := strings.NewReplacer("\\\r\n", " ", "\\\n", " ").Replace(strings.TrimPrefix(string(text), "\ufeff"))
	for line := range strings.Lines(joined) {
		if line = strings.TrimSpace(line); strings.Contains(line, "#") {
			line = strings.TrimSpace(comment().ReplaceAllString(line, ""))
		}
		if line == "" {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		file := fileOption().FindStringSubmatch(line)
		switch {
		case word == "-r" || word == "--requirement":
			files = append(files, strings.TrimSpace(rest))
		case file != nil:
			files = append(files, file[1])
		case strings.Contains(line, "--hash="):
			return nil, nil, errors.New("hashes are not supported: leave them out")
		case !validRequirement(line):
			return nil, nil, fmt.Errorf("%.80q is not supported: only names of packages, with versions", line)
		default:
			requirements = append(requirements, line)
		}
		if len(requirements)+len(files) > sandbox.MaxRequirements {
			break
		}
	}
	return requirements, files, nil
}

// comment matches the comment at the end of a line.
var comment = trace.Pattern(`(?:^|\s)#.*$`)

const maxRequirement = 300 // bytes

// marker matches an environment marker of PEP 508 with its semicolon, except that parentheses may be unbalanced.
const marker = `;[ \t]*` + comparison + `(?:(?:and|or)\b[ \t]*` + comparison + `)*`

const comparison = `[( \t]*` + markerValue + `(?:[<>=!~]=|===|[<>]|\bnot[ \t]+in\b|\bin\b)[ \t]*` + markerValue + `[) \t]*`

const markerValue = `(?:(?:os_name|sys_platform|platform_(?:machine|python_implementation|release|system|version)|` +
	`python_(?:full_)?version|implementation_(?:name|version)|extra)\b|'[A-Za-z0-9_.,*+ -]*'|"[A-Za-z0-9_.,*+ -]*")[ \t]*`

// requirement matches PEP 508 without addresses: name, extras, versions, marker. A second line could be an option of
// pip, and does not match.
var requirement = sync.OnceValue(func() *regexp.Regexp {
	const version = `(?:===|~=|==|!=|<=|>=|<|>)[ \t]*[A-Za-z0-9.*+!_-]+`
	return regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?[ \t]*(?:\[[A-Za-z0-9._, \t-]+\])?[ \t]*` +
		`(?:\(?[ \t]*` + version + `(?:[ \t]*,[ \t]*` + version + `)*[ \t]*\)?)?[ \t]*` +
		`(?:` + marker + `)?$`)
})

func validRequirement(text string) bool {
	return len(text) <= maxRequirement && requirement().MatchString(text)
}

// lockLine matches the line of one package with its version and the hashes of its archives.
var lockLine = trace.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9.!+_-]+[ \t]*` +
	`(?:` + marker + `)?(?:[ \t]*--hash=sha(?:256|384|512):[0-9a-f]+)*[ \t]*$`)

func validLock(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !lockLine().MatchString(line) {
			return false
		}
	}
	return true
}

// packageNames maps modules to packages with another name. A longer name takes precedence.
var packageNames = map[string]string{
	"attr": "attrs", "bs4": "beautifulsoup4", "Bio": "biopython", "cairo": "pycairo", "community": "python-louvain",
	"Crypto": "pycryptodome", "Cryptodome": "pycryptodomex", "cv2": "opencv-python-headless",
	"dateutil": "python-dateutil", "discord": "discord.py", "dns": "dnspython", "docx": "python-docx",
	"dotenv": "python-dotenv", "faiss": "faiss-cpu", "fitz": "pymupdf", "git": "gitpython", "github": "pygithub",
	"google.cloud.bigquery": "google-cloud-bigquery", "google.cloud.storage": "google-cloud-storage",
	"google.generativeai": "google-generativeai", "google.genai": "google-genai", "google.protobuf": "protobuf",
	"googleapiclient": "google-api-python-client", "gi": "pygobject", "grpc": "grpcio", "haystack": "haystack-ai",
	"jose": "python-jose", "jwt": "pyjwt", "kafka": "kafka-python", "ldap": "python-ldap", "magic": "python-magic",
	"memcache": "python-memcached", "mpl_toolkits": "matplotlib", "MySQLdb": "mysqlclient", "nacl": "pynacl",
	"OpenSSL": "pyopenssl", "osgeo": "gdal", "PIL": "pillow", "pkg_resources": "setuptools", "pptx": "python-pptx",
	"psycopg2": "psycopg2-binary", "pwn": "pwntools", "pylab": "matplotlib", "pythoncom": "pywin32",
	"readability": "readability-lxml", "rest_framework": "djangorestframework", "ruamel": "ruamel.yaml",
	"serial": "pyserial", "skimage": "scikit-image", "sklearn": "scikit-learn", "slugify": "python-slugify",
	"socks": "pysocks", "speech_recognition": "speechrecognition", "telegram": "python-telegram-bot",
	"umap": "umap-learn", "usb": "pyusb", "websocket": "websocket-client", "win32api": "pywin32", "wx": "wxpython",
	"Xlib": "python-xlib", "yaml": "pyyaml", "zmq": "pyzmq", "opentelemetry": "opentelemetry-api",
	"opentelemetry.sdk": "opentelemetry-sdk", "azure.storage.blob": "azure-storage-blob",
	"azure.identity": "azure-identity",
}

// popular lists names to suggest for misspelled ones.
var popular = strings.Fields(`aiohttp airflow altair anthropic anyio arrow asyncpg attrs azure-identity beautifulsoup4
	biopython black bokeh boto3 botocore celery certifi chardet click cryptography cython dask datasets django
	djangorestframework docker duckdb fastapi flask flask-cors geopandas gensim gitpython graphviz grpcio gunicorn
	httpx huggingface-hub hypothesis imageio ipython jinja2 joblib jsonschema jupyter keras langchain lightgbm
	llama-index loguru lxml markdown markupsafe marshmallow matplotlib mistune moviepy mypy mysqlclient networkx nltk
	numba numpy openai opencv-python-headless openpyxl orjson pandas paramiko patsy pillow playwright plotly polars
	prettytable psutil psycopg2-binary pyarrow pycryptodome pydantic pygame pygments pyjwt pymongo pymupdf pymysql
	pyopenssl pyparsing pypdf pyserial pytest python-dateutil python-docx python-dotenv python-pptx pytz pyyaml qrcode
	redis regex reportlab requests rich scikit-image scikit-learn scipy scrapy seaborn selenium sentence-transformers
	setuptools shapely six sklearn spacy sqlalchemy starlette statsmodels streamlit sympy tabulate tensorflow textblob
	tiktoken tokenizers toml torch tornado tqdm transformers typer typing-extensions ujson urllib3 uvicorn uvloop
	websocket-client websockets werkzeug wheel wordcloud wrapt xarray xgboost xlrd xlsxwriter xmltodict yfinance
	zstandard`)
