package python

import (
	"bytes"
	_ "embed" // the two programs
	"regexp"
	"strings"
	"sync"

	"github.com/glovebox-dev/glovebox/sandbox"
)

//go:embed packages/survey.py
var survey string

//go:embed packages/install.py
var install string

const layerAt = "/opt/glovebox/python"

// installer installs by uv where the root has it, otherwise by pip. Its programs run isolated (-I): files of the workspace cannot stand in
// for modules of theirs. The folder is found by PYTHONPATH, so its packages come before those of the root.
var installer = &sandbox.Installer{
	Name:      "python",
	At:        layerAt,
	Path:      []string{"PYTHONPATH=" + layerAt, "PATH=" + layerAt + "/bin"},
	NeedsNone: needsNone,
	Magic:     magic,
	Survey:    func(program string) []string { return []string{program, "-I", "-c", survey} },
	Install:   func(program string) []string { return []string{program, "-I", "-c", install} },
	Names:     packageNames,
	Valid:     validRequirement,
	ValidLock: validLock,
	Witnesses: []string{"usr/bin/python3", "usr/lib/python3/dist-packages", "usr/local/bin/python3", "usr/local/lib/python3.11/dist-packages"},
	Fix:       "install the package python3-pip, or uv, there",
	Popular:   popular,
}

// installLine is a line of a notebook that installs packages. The driver of contexts has the same.
var installLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*[%!][ \t]*(?:python3?[ \t]+-m[ \t]+)?(?:pip3?|uv[ \t]+pip)[ \t]+install[ \t]+(.*)$`)
})

// magic lists the requirements of such lines, without options and their files.
func magic(code []byte) (found []string) {
	if !bytes.Contains(code, []byte("pip")) {
		return nil
	}
	for _, line := range installLine().FindAllSubmatch(code, maxMagic) {
		skip := false
		for word := range strings.FieldsSeq(string(line[1])) {
			word = strings.Trim(word, `'"`)
			switch {
			case strings.HasPrefix(word, "#"):
				skip = true
			case strings.HasPrefix(word, "-"):
				skip = word == "-r" || word == "-c" || word == "-e" || word == "-i" || word == "--index-url" || word == "--extra-index-url"
				continue
			case !skip && word != "":
				found = append(found, word)
			}
			if strings.HasPrefix(word, "#") {
				break
			}
			skip = false
		}
	}
	return found
}

const maxMagic = 100 // lines of one code that install

const maxRequirement = 300 // bytes

// requirement is PEP 508 without addresses: name, extras, versions, marker.
var requirement = sync.OnceValue(func() *regexp.Regexp {
	const version = `(?:===|~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+`
	return regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\s*(?:\[[A-Za-z0-9._,\s-]+\])?\s*` +
		`(?:\(?\s*` + version + `(?:\s*,\s*` + version + `)*\s*\)?)?\s*(?:;[A-Za-z0-9_.'"<>=!~()\s-]+)?$`)
})

func validRequirement(text string) bool {
	return len(text) <= maxRequirement && requirement().MatchString(text)
}

// lockLine pins one package to archives.
var lockLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_-]+\s*(?:;[A-Za-z0-9_.'"<>=!~()\s-]+)?(?:\s+--hash=sha(?:256|384|512):[0-9a-f]+)*\s*$`)
})

func validLock(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !lockLine().MatchString(line) {
			return false
		}
	}
	return true
}

// packageNames are the packages whose modules have other names, as their own documentation has them. A longer name wins.
var packageNames = map[string]string{
	"attr":                  "attrs",
	"bs4":                   "beautifulsoup4",
	"Bio":                   "biopython",
	"cairo":                 "pycairo",
	"community":             "python-louvain",
	"Crypto":                "pycryptodome",
	"Cryptodome":            "pycryptodomex",
	"cv2":                   "opencv-python-headless",
	"dateutil":              "python-dateutil",
	"discord":               "discord.py",
	"dns":                   "dnspython",
	"docx":                  "python-docx",
	"dotenv":                "python-dotenv",
	"faiss":                 "faiss-cpu",
	"fitz":                  "pymupdf",
	"git":                   "gitpython",
	"github":                "pygithub",
	"google.cloud.bigquery": "google-cloud-bigquery",
	"google.cloud.storage":  "google-cloud-storage",
	"google.generativeai":   "google-generativeai",
	"google.genai":          "google-genai",
	"google.protobuf":       "protobuf",
	"googleapiclient":       "google-api-python-client",
	"gi":                    "pygobject",
	"grpc":                  "grpcio",
	"haystack":              "haystack-ai",
	"jose":                  "python-jose",
	"jwt":                   "pyjwt",
	"kafka":                 "kafka-python",
	"ldap":                  "python-ldap",
	"magic":                 "python-magic",
	"memcache":              "python-memcached",
	"mpl_toolkits":          "matplotlib",
	"MySQLdb":               "mysqlclient",
	"nacl":                  "pynacl",
	"OpenSSL":               "pyopenssl",
	"osgeo":                 "gdal",
	"PIL":                   "pillow",
	"pkg_resources":         "setuptools",
	"pptx":                  "python-pptx",
	"psycopg2":              "psycopg2-binary",
	"pwn":                   "pwntools",
	"pylab":                 "matplotlib",
	"pythoncom":             "pywin32",
	"readability":           "readability-lxml",
	"rest_framework":        "djangorestframework",
	"ruamel":                "ruamel.yaml",
	"serial":                "pyserial",
	"skimage":               "scikit-image",
	"sklearn":               "scikit-learn",
	"slugify":               "python-slugify",
	"socks":                 "pysocks",
	"speech_recognition":    "speechrecognition",
	"telegram":              "python-telegram-bot",
	"umap":                  "umap-learn",
	"usb":                   "pyusb",
	"websocket":             "websocket-client",
	"win32api":              "pywin32",
	"wx":                    "wxpython",
	"Xlib":                  "python-xlib",
	"yaml":                  "pyyaml",
	"zmq":                   "pyzmq",
	"opentelemetry":         "opentelemetry-api",
	"opentelemetry.sdk":     "opentelemetry-sdk",
	"azure.storage.blob":    "azure-storage-blob",
	"azure.identity":        "azure-identity",
}

// popular are names that are often asked for.
var popular = strings.Fields(`aiohttp airflow altair anthropic anyio arrow asyncpg attrs azure-identity beautifulsoup4 biopython black bokeh boto3 botocore celery certifi
chardet click cryptography cython dask datasets django djangorestframework docker duckdb fastapi flask flask-cors geopandas gensim gitpython graphviz grpcio gunicorn
httpx huggingface-hub hypothesis imageio ipython jinja2 joblib jsonschema jupyter keras langchain lightgbm llama-index loguru lxml markdown markupsafe marshmallow
matplotlib mistune moviepy mypy mysqlclient networkx nltk numba numpy openai opencv-python-headless openpyxl orjson pandas paramiko patsy pillow playwright plotly polars
prettytable psutil psycopg2-binary pyarrow pycryptodome pydantic pygame pygments pyjwt pymongo pymupdf pymysql pyopenssl pyparsing pypdf pyserial pytest python-dateutil
python-docx python-dotenv python-pptx pytz pyyaml qrcode redis regex reportlab requests rich scikit-image scikit-learn scipy scrapy seaborn selenium sentence-transformers
setuptools shapely six sklearn spacy sqlalchemy starlette statsmodels streamlit sympy tabulate tensorflow textblob tiktoken tokenizers toml torch tornado tqdm transformers
typer typing-extensions ujson urllib3 uvicorn uvloop websocket-client websockets werkzeug wheel wordcloud wrapt xarray xgboost xlrd xlsxwriter xmltodict yfinance zstandard`)
