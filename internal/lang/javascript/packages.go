package javascript

import (
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

//go:embed packages/survey.js
var survey string

//go:embed packages/install.js
var install string

// Installer installs with npm. Its layer is /node_modules, where require and import look from any folder.
var Installer = &sandbox.Installer{
	Name:      "javascript",
	At:        "/node_modules",
	Tool:      "typescript",
	Survey:    func(program string) []string { return []string{program, "-e", survey} },
	Install:   func(program string) []string { return []string{program, "-e", install} },
	Valid:     validRequirement,
	ValidLock: validLock,
	Witnesses: []string{"usr/bin/node", "usr/bin/npm", "usr/local/bin/node", "usr/local/bin/npm"},
	Fix:       "install the package npm there",
	Popular:   popular,
}

const maxRequirement = 300 // bytes

// requirement matches a name with an optional scope, and an optional version, range or tag. Aliases, paths and
// addresses do not match.
var requirement = trace.Pattern(`^(?:@[a-z0-9~][a-z0-9._~-]*/)?[a-zA-Z0-9~][a-zA-Z0-9._~-]*` +
	`(?:@[a-zA-Z0-9.*^~<>=|+ -]*)?$`)

func validRequirement(text string) bool {
	return len(text) <= maxRequirement && requirement().MatchString(text)
}

// validLock accepts locks of npm since version 7. It ignores the addresses of archives: the network of the installer
// refuses other hosts.
func validLock(text string) bool {
	var lock struct {
		Version  int `json:"lockfileVersion"`
		Packages map[string]struct {
			Link         bool              `json:"link"`
			Version      string            `json:"version"`
			Dependencies map[string]string `json:"dependencies"`
		} `json:"packages"`
	}
	if json.Unmarshal([]byte(text), &lock) != nil || lock.Version < 2 {
		return false
	}
	root, ok := lock.Packages[""]
	for name, p := range lock.Packages {
		below := strings.HasPrefix(name, "node_modules/") && !strings.Contains(name, "..")
		if p.Link || name != "" && (!below || p.Version == "") {
			return false
		}
	}
	for name, wants := range root.Dependencies {
		ok = ok && validRequirement(name+"@"+wants)
	}
	return ok
}

// popular lists names to suggest for misspelled ones.
var popular = strings.Fields(`ajv async axios bcrypt bluebird body-parser chalk cheerio chokidar classnames commander
	cors cross-env csv-parse d3 date-fns dayjs debug decimal.js dotenv ejs esbuild eslint execa express fastify
	fs-extra glob graphql handlebars helmet immer ioredis jest joi jsdom jsonwebtoken knex koa lodash luxon marked
	mathjs minimist mocha moment mongodb mongoose morgan mysql2 nanoid nodemailer openai papaparse passport pg pino
	playwright prettier prisma puppeteer ramda react react-dom redis rxjs semver sequelize sharp socket.io sqlite3
	superagent three tslib typescript underscore undici uuid validator vite vue webpack winston ws xlsx xml2js yargs
	yaml yup zod zustand`)
