package sandbox

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// Packages are those that code gets besides what its root has. The zero value asks for none.
type Packages struct {
	Auto bool // those that the code imports and the root lacks, and those that its files list
	// as the language's installer takes them: "requests==2.31.0", "lodash@4"; from its index alone
	Requirements []string
	AllowBuild   bool // the installer may run their code: source distributions, install scripts
	// exactly these, as an earlier Supply gave it; nothing else is asked for then. Not in a living sandbox
	Lock string
}

// Any reports whether packages are requested.
func (p Packages) Any() bool { return p.Auto || len(p.Requirements) > 0 || p.Lock != "" }

// Named reports whether packages are requested by name.
func (p Packages) Named() bool { return len(p.Requirements) > 0 || p.Lock != "" }

// MaxRequirements is the most that one sandbox gets.
const MaxRequirements = 500

// CheckRequirements refuses more than MaxRequirements.
func CheckRequirements(n int) error {
	if n <= MaxRequirements {
		return nil
	}
	return &Error{Kind: TooLarge, Op: "packages",
		Msg: fmt.Sprintf("more than %d packages are requested", MaxRequirements),
		Fix: "ask for fewer packages"}
}

// Added are packages that were added to a living sandbox.
type Added struct {
	Packages            // as requested
	Installed []Package // what that came to
}

// PackagesAuto stands for Packages.Auto in a list of requirements.
const PackagesAuto = "auto"

// PackagesOf reads a list of requirements as people write it.
func PackagesOf(list []string, allowBuild bool, lock string) Packages {
	p := Packages{AllowBuild: allowBuild, Lock: lock}
	for _, name := range list {
		if name == PackagesAuto {
			p.Auto = true
		} else {
			p.Requirements = append(p.Requirements, name)
		}
	}
	return p
}

var plainRequirement = strings.NewReplacer("_", "-", ".", "-")

// Check refuses invalid requirements, of a request and of lines in its code.
func (in *Installer) Check(requested, inCode []string) error {
	for i, r := range slices.Concat(requested, inCode) {
		if in.Valid(r) {
			continue
		}
		op := "code"
		if i < len(requested) {
			op = fmt.Sprintf("packages[%d]", i)
		}
		why, fix := refusal(r)
		err := Invalidf(op, "%.80q is not the name of a package with optional versions%s", r, why)
		err.Fix = fix
		if as := strings.Replace(r, "==", "@", 1); as != r && in.Valid(as) { // pip's syntax, for npm
			err.Fix = "ask for " + as
		}
		return err
	}
	return nil
}

// refusal names the rule that an invalid requirement breaks, and the way out.
func refusal(requirement string) (why, fix string) {
	const apart = ": packages come only from the index, "
	switch {
	case strings.HasPrefix(requirement, "-"):
		return ": options are not accepted", "leave it out; the operator chooses the index"
	case strings.Contains(requirement, "://"):
		return apart + "not from an address", "let the code install it, in a sandbox whose network reaches the host; " +
			"or put it into an index of your own"
	case strings.ContainsAny(requirement, "/\\"):
		return apart + "not from a path or a repository", "send the files with the code, which can import them from " +
			"the workspace"
	}
	return "", ""
}

// NameOf is the name of the package of a requirement, spelt so that two of one package are equal.
func (in *Installer) NameOf(requirement string) string {
	if end := strings.IndexAny(requirement, " \t[(<>=!~;"); end > 0 {
		requirement = requirement[:end]
	}
	if at := strings.LastIndexByte(requirement, '@'); at > 0 { // the first may be that of a scope
		requirement = requirement[:at]
	}
	if !in.Folds {
		return requirement
	}
	return plainRequirement.Replace(strings.ToLower(requirement))
}

// Merge returns packages with others, by name. Others replace packages of their names, which it also returns.
func (in *Installer) Merge(had, others []Package) (all, replaced []Package) {
	names := make(map[string]bool, len(others))
	for _, p := range others {
		names[in.NameOf(p.Name)] = true
	}
	for _, p := range had {
		if names[in.NameOf(p.Name)] {
			replaced = append(replaced, p)
		} else {
			all = append(all, p)
		}
	}
	all = append(all, others...)
	slices.SortFunc(all, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return all, replaced
}

// PackageOf is the package of a module: the one that is known for the longest beginning of its dotted name, else the
// first word. Without Names, it is the name itself, without a path within the package.
func (in *Installer) PackageOf(module string) string {
	if in.Names == nil {
		words := strings.SplitN(module, "/", 3)
		if strings.HasPrefix(module, "@") && len(words) > 1 {
			return words[0] + "/" + words[1]
		}
		return words[0]
	}
	for name := module; ; {
		if p, known := in.Names[name]; known {
			return p
		}
		dot := strings.LastIndexByte(name, '.')
		if dot < 0 {
			return name
		}
		name = name[:dot]
	}
}

// Package is one package of a layer.
type Package struct {
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	Requires []string `json:"requires,omitempty"` // names of others that it needs
	// of its archive, as the index gives it: "sha256:..." or "sha512-..."; "" if unknown
	Hash string `json:"hash,omitempty"`
}

// Installer says how packages of a language are found and installed. Its programs are in that language; they run in
// sandboxes like the one of the code, and their answers are hostile bytes.
type Installer struct {
	Name string   // of what it installs from, in the configuration of indexes: the language that it is for first
	At   string   // where a sandbox has the layer: "/node_modules"
	Path []string // variables that list folders, each with what to add: "PYTHONPATH=/opt/packages"

	// Imports lists on the host what code needs, where that takes no parser that recursion or time could end; nil
	// leaves it to Survey. Where it names any, code without files has no other say in what is installed.
	Imports func(code []byte) []Import

	// NeedsNone reports, from a glance at code and the files that came with it, that it surely needs no package. nil
	// never does.
	NeedsNone func(code []byte, files []File) bool

	// Tool is a program of ours that Survey finds as /tmp/fumehood-TOOL, as Compile.Tool; "" is none.
	Tool string

	// Magic returns what code of a context installs by lines for notebooks: "%pip install requests". nil finds none.
	// Where PackagesVariable is set, the driver takes them for done.
	Magic func(code []byte) MagicInstalls

	// List returns the requirements in a file that Magic names, and the files that it names in turn, relative to its
	// folder. The error says which line is not supported. The text is hostile. It is set where Magic is.
	List func(text []byte) (requirements, files []string, err error)

	// Plain is code with the lines of Magic that do no more than install turned into statements that do nothing. It
	// requires Magic.
	Plain func(code []byte) []byte

	// Survey answers a PackageQuestion on stdin with a PackageSurvey on stdout. It sees the files and the workspace of
	// the run.
	Survey func(program string) []string

	// SurveyCode is Survey with its question as one program of the language, which an interpreter that waits starts
	// sooner; nil is unsupported. It imports nothing from the workspace.
	SurveyCode func(question []byte) []byte

	// Folder reads folders of packages. nil is unsupported: Install installs all packages of a sandbox again.
	Folder *PackageFolder

	// Install does a PackageOrder on stdin and prints a PackageReceipt. Its stderr is progress, a line each. nil:
	// nothing can be installed, and what is missing is named.
	Install func(program string) []string

	// Witnesses are the paths below a root that change when its interpreter or installed packages do.
	Witnesses []string

	// Folds says that names which differ only in case, or in which of "-", "_" and "." they have, are of one package.
	Folds bool

	Fix     string   // how a root gets an installer
	Popular []string // packages that misspelt names are compared with

	// Names are the packages of modules that have other names; without Install, the Debian packages of commands.
	Names map[string]string

	// Valid reports whether a requirement is one of the index, and neither an option nor a path nor an address.
	Valid func(requirement string) bool

	// ValidLock reports whether a lock is one, and names archives of the index alone.
	ValidLock func(lock string) bool
}

// PackageFolder reads folders of packages, whose files are hostile.
type PackageFolder struct {
	// Present describes packages to Installer.Install, which then installs only what is not there.
	Present func(folder fs.FS, packages []Package) []string

	// Files lists the files of packages, relative to the folder. The names are hostile too.
	Files func(folder fs.FS, packages []Package) []string
}

// MagicInstalls are what lines for notebooks install.
type MagicInstalls struct {
	Requirements []string
	Upgrades     []string // of Requirements: in the newest version, also if there is another
	Files        []string // that list requirements: "requirements.txt"
}

// PackagesVariable is set in a sandbox that gets packages while it lives.
const PackagesVariable = "FUMEHOOD_PACKAGES"

// PackageQuestion asks what a run needs.
type PackageQuestion struct {
	Auto         bool     `json:"auto"`
	Name         string   `json:"name"` // of the code's file
	Code         string   `json:"code"`
	Imports      []Import `json:"imports"` // where Installer.Imports finds them
	Requirements []string `json:"requirements"`
}

// PackageSurvey is what an interpreter finds out.
type PackageSurvey struct {
	Requirements []string `json:"requirements"` // those that are not there
	Found        []Import `json:"found"`        // what is imported and not there

	// The answer to a question that is not Auto has these too.
	Platform  string   `json:"platform"`  // what compiled packages depend on: interpreter, processor, C library
	Installer string   `json:"installer"` // the program that installs; "" if the root has none
	Index     string   `json:"index"`     // its default index
	Hosts     []string `json:"hosts"`     // that the default index is on
}

// Import is a module that code imports and that is not there.
type Import struct {
	Name     string `json:"name"` // as in the code, perhaps with dots
	Line     int    `json:"line"`
	Optional bool   `json:"optional"` // the code expects that it may be missing
}

// PackageOrder is what to install.
type PackageOrder struct {
	Dir          string   `json:"dir"`
	Index        string   `json:"index"`
	Requirements []string `json:"requirements"`
	Found        []string `json:"found"` // likewise, but those that the index lacks are left out
	Lock         string   `json:"lock"`
	AllowBuild   bool     `json:"allow_build"`
	Present      []string `json:"present"` // see PackageFolder; the receipt lists only further packages
}

// PackageReceipt lists the installed packages.
type PackageReceipt struct {
	Packages []Package `json:"packages"`
	Lock     string    `json:"lock"`    // an order with this lock has the same outcome
	Missing  []string  `json:"missing"` // of Found: what the index lacks
	Error    string    `json:"error"`   // the installer's own words; nothing was installed
	Unknown  string    `json:"unknown"` // beside Error: the package that the index lacks
	Unbuilt  string    `json:"unbuilt"` // beside Error: the package that would have to be built
	Unfit    string    `json:"unfit"`   // beside Error: the package that has no archive for this interpreter and system
	Full     bool      `json:"full"`    // beside Error: the installer's disk is full
	Down     bool      `json:"down"`    // beside Error: the index did not answer
	Denied   bool      `json:"denied"`  // beside Error: the index wants a name and a password, or others
}

// Packager finds, installs and keeps packages.
type Packager interface {
	// Supply returns what a run needs, from its cache or with work in sandboxes. Errors: Invalid, the packages cannot
	// be had, in the index's words; Unsupported, the root has no installer; Unavailable, the index or the cache fails.
	Supply(ctx context.Context, need PackageNeed, work Worker) (*Supply, error)

	// Show makes a folder hold the files of a layer, and nothing else, while sandboxes read it. Where it can, they
	// share the files' content. The folder is ROOT/SANDBOX/NAME of an owner's sandbox; files beside it whose names
	// begin with its own are the Packager's. It calls record before it changes the folder, when nothing but a failure
	// of this host or a kill can stop it: then the folder is not Linked. Errors: Quota, the folders below ROOT would
	// hold too much; Unavailable; that of record.
	Show(layer Layer, folder, owner string, record func() error) error

	// Add makes a folder hold the files of a layer, too, and removes those of gone that the layer does not have. It
	// has the errors, record and folder of Show.
	Add(layer Layer, folder, owner string, gone []string, record func() error) error

	// Linked reports whether no Show into a folder, or Add, has failed or was cut off since the last that succeeded.
	Linked(folder string) bool
}

// PackageNeed describes a run that needs packages.
type PackageNeed struct {
	Packages
	Language Language
	Name     string // of the code's file
	Code     []byte
	Files    []File
	Root     Root // zero: the host's own system directories
	// the code sees files that are unknown here: a directory of the host, or a living sandbox
	Open     bool
	Progress func(line string)

	// Present are the packages of a folder, which the supply is added to; nil is none. Supply.Packages has only others.
	Present *PresentPackages

	// Terms is what decides about the Worker besides the language and the root: owner, backend and waivers. Only needs
	// with equal terms get work of one Worker, and its errors.
	Terms string

	// Lowered has the Worker's highest limits that are lower than those of requests without an owner; 0 is not lower.
	// Work with low limits may end in another answer, so such needs share answers only with those of equal limits.
	Lowered Limits
}

// PresentPackages are packages that a living sandbox has.
type PresentPackages struct {
	Folder       string
	Requirements []string // as requested earlier
	Packages     []Package
	Texts        []string // PackageFolder.Present of Folder; the Packager sets it
}

// Worker runs one step in a fresh sandbox like that of the run.
type Worker func(ctx context.Context, w Work) (*Result, error)

// Work is one step of finding or installing packages.
type Work struct {
	Command func(program string) []string
	Stdin   []byte
	Code    []byte // a program that does the same without Stdin, or nil
	Tool    string // see Installer
	Survey  bool   // it gets the files and the workspace of the run; otherwise neither, and nothing of its environment
	Network NetworkPolicy
	Indexed bool   // the operator named the index to which Network leads; otherwise the root did
	Limits  Limits // lowered to what the engine allows; a zero field is the default
	Output  OutputFunc
	// Take receives each file below From once the command has succeeded. Paths, modes and contents are hostile.
	From     string
	MaxFiles int64
	MaxBytes int64
	Take     func(file FileInfo, content io.Reader) error
}

// Supply is the layers of a run. The caller releases it after the sandbox is closed.
type Supply struct {
	Layers   []Layer
	Path     []string // see Installer
	Packages []Package
	Lock     string   // see Packages
	Asked    []string // the requirements, those for imports included
	Missing  []string // imports for which no package was found
	Optional []string // packages of imports that the code can do without, which Auto left out
	Release  func()
}
