package main

import (
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/egress"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/internal/packages"
	"github.com/fumehood-dev/fumehood/internal/packages/shared"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// packageFlags are the sources of packages and their cache.
type packageFlags struct {
	cache   string
	size    sizeValue
	ttl     time.Duration
	indexes []string
	hosts   []string
	share   string
	archive string
	several func() bool // serve has keys of several owners
}

func (f *packageFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.cache, "package-cache", "", "`DIR` that keeps them (default packages in our cache folder)")
	f.size = packages.DefaultMaxBytes
	flags.Var(&f.size, "package-cache-size",
		"maximum size, also of packages of living sandboxes (default "+f.size.String()+")")
	flags.DurationVar(&f.ttl, "package-ttl", packages.DefaultTTL,
		"how long a run reuses packages without a version (default 24h)")
	flags.StringSliceVar(&f.indexes, "package-index", nil,
		"index of packages, `LANG=URL` (repeatable; default the installer's)")
	flags.StringVar(&f.share, "package-share", "",
		"`URL` of a Redis server, to share with other machines: redis://HOST")
	flags.StringVar(&f.archive, "package-archive", "", "`URL` of the shared archives: file:///DIR")
	flags.StringSliceVar(&f.hosts, "package-host", nil, "further `HOST` of the files of an index (repeatable)")
}

// packager returns a supplier of packages, or nil without a home.
func (a *app) packager(f *packageFlags) (sandbox.Packager, error) {
	config, err := a.packageConfig(f)
	if err != nil || config.Dir == "" {
		return nil, err
	}
	if config.Shared, err = a.sharedPackages(f); err != nil {
		return nil, err
	}
	return packages.New(config), nil
}

// sharedPackages returns the cache that several machines share, if the flags name one.
func (a *app) sharedPackages(f *packageFlags) (packages.Shared, error) {
	switch {
	case f.share == "" && f.archive == "":
		return packages.Shared{}, nil
	case f.share == "" || f.archive == "":
		return packages.Shared{}, invalid("--package-share", "--package-share and --package-archive require each other",
			"--package-share redis://HOST:6379/0 --package-archive file:///DIR")
	case shared.HasPassword(f.share):
		if err := a.hidden("package-share", ""); err != nil {
			return packages.Shared{}, err
		}
	}
	return shared.Open(f.share, f.archive)
}

func (a *app) packageConfig(f *packageFlags) (packages.Config, error) {
	config := packages.Config{Dir: f.cache, MaxBytes: int64(f.size), TTL: f.ttl, Indexes: map[string]packages.Index{},
		Log: a.logger(), SeveralOwners: f.several}
	if config.Dir == "" {
		cache := a.env().CacheDir()
		if cache == "" {
			return config, nil // without a home there is no cache, and no packages
		}
		config.Dir = filepath.Join(cache, "packages")
	}
	var err error
	if config.Dir, err = filepath.Abs(config.Dir); err != nil {
		return config, err
	}
	for _, text := range f.indexes {
		name, address, ok := strings.Cut(text, "=")
		installs := func(l sandbox.Language) bool { return l.Installer != nil && l.Installer.Name == name }
		_, known := findLanguage(installs)
		u, err := url.Parse(address)
		if !ok || !known || !strings.Contains(address, "://") || err != nil {
			// Without the URL, which may have a password.
			return config, invalid("--package-index", "is not LANGUAGE=URL, with a language that has packages",
				"--package-index python=https://index.example.org/simple")
		}
		if err := a.checkIndex(name, u); err != nil {
			return config, err
		}
		config.Indexes[name] = packages.Index{URL: address, Hosts: f.hosts}
	}
	for _, l := range lang.All() {
		if l.Installer == nil || len(f.hosts) == 0 {
			continue
		}
		if _, named := config.Indexes[l.Installer.Name]; !named {
			config.Indexes[l.Installer.Name] = packages.Index{Hosts: f.hosts}
		}
	}
	return config, nil
}

// checkIndex refuses an address with a user name if the gate could not keep its password, or not send it to the index:
// the gate inserts passwords only into encrypted requests to a named host.
func (a *app) checkIndex(language string, u *url.URL) error {
	if u.User == nil {
		return nil
	}
	password, _ := u.User.Password()
	_, notNamed := netip.ParseAddr(u.Hostname())
	example := "=" + language + "=https://NAME:PASSWORD@HOST/..."
	switch {
	case password == "":
		const why = "the address has a name without a password, and the gate keeps only passwords"
		return invalid("--package-index", why, elsewhere("package-index", example))
	case notNamed == nil || u.Scheme != "https":
		return invalid("--package-index", "a password requires https, and a host with a name",
			elsewhere("package-index", example))
	}
	secret := sandbox.Secret{Name: "PASSWORD", Hosts: []string{u.Hostname()}, Value: password}
	policy := sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Secrets: []sandbox.Secret{secret}}
	if egress.Check(policy) != nil { // its error has the length, and clients of serve would get it
		const why = "the gate cannot keep this password; it must have 8 to 8192 characters, without controls"
		return invalid("--package-index", why, elsewhere("package-index", example))
	}
	return a.hidden("package-index", example)
}

// hidden refuses a password in a flag, or in a configuration file, that other users can read.
func (a *app) hidden(flag, example string) error {
	switch {
	case !a.settings.Configured(flag):
		return invalid("--"+flag, "other users of this machine can read a password on a command line",
			elsewhere(flag, example))
	case a.settings.Exposed(flag):
		return invalid("--"+flag, "other users of this machine can read the password in the configuration file",
			"chmod o-r "+terminal.Quote(a.settings.File))
	}
	return nil
}

// elsewhere is the fix to set a flag with a password in another place.
func elsewhere(flag, example string) string {
	return "set " + settings.Variable(flag) + example + ", or " + strings.ReplaceAll(flag, "-", "_") +
		" in the configuration file"
}

type neededFlags struct {
	packageFlags
	names      []string
	allowBuild bool
	lock       string
}

func (f *neededFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.names, "packages", "p", nil, "install a `REQUIREMENT`, or auto: the imports (repeatable)")
	flags.BoolVar(&f.allowBuild, "allow-build", false, "let packages run their own code during installation")
	f.packageFlags.add(flags)
	flags.StringVar(&f.lock, "lock", "", "install exactly the packages in this `FILE`, from fumehood deps lock")
	completions(cmd, "packages", sandbox.PackagesAuto, packagesNone)
}

// packagesNone is the value of --packages that overrides a variable or the configuration.
const packagesNone = "none"

// packages returns the packages for code or a command.
func (a *app) packages(f *neededFlags, isCommand bool) (sandbox.Packages, error) {
	if a.settings.Configured("packages") && isCommand {
		f.names = nil // the configuration is for code
	}
	names := f.names
	if slices.Contains(names, packagesNone) {
		if len(names) > 1 {
			return sandbox.Packages{}, sandbox.Invalidf("--packages", "none cannot be combined with other packages")
		}
		names = nil
	}
	lock := ""
	if f.lock != "" {
		text, err := a.host().Read("--lock", f.lock, maxLock)
		if err != nil {
			return sandbox.Packages{}, err
		}
		lock = string(text)
	}
	return sandbox.PackagesOf(names, f.allowBuild, lock), nil
}

const maxLock = 1 << 20 // bytes
