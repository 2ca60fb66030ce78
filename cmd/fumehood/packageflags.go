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

	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/internal/packages"
	"github.com/fumehood-dev/fumehood/internal/packages/shared"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// packageFlags say where packages come from and where they are kept.
type packageFlags struct {
	cache   string
	size    sizeValue
	ttl     time.Duration
	indexes []string
	hosts   []string
	share   string
	archive string
	several bool // owners: serve has several keys
}

func (f *packageFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.cache, "package-cache", "", "`DIR` that keeps them (default packages in our cache folder)")
	f.size = packages.DefaultMaxBytes
	flags.Var(&f.size, "package-cache-size", "most that it keeps, and living sandboxes have of it (default "+f.size.String()+")")
	flags.DurationVar(&f.ttl, "package-ttl", packages.DefaultTTL, "how long packages without a version stay as they are (default 24h)")
	flags.StringSliceVar(&f.indexes, "package-index", nil, "index of packages, `LANG=URL` (repeatable; default the installer's)")
	flags.StringVar(&f.share, "package-share", "", "`URL` of a Redis server, to share with other machines: redis://HOST")
	flags.StringVar(&f.archive, "package-archive", "", "`URL` of what they share: file:///DIR")
	flags.StringSliceVar(&f.hosts, "package-host", nil, "further `HOST` that an index hands out files from (repeatable)")
}

// packager supplies packages by what the flags say.
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

// sharedPackages is what the flags say of a cache that several machines share.
func (a *app) sharedPackages(f *packageFlags) (packages.Shared, error) {
	switch {
	case f.share == "" && f.archive == "":
		return packages.Shared{}, nil
	case f.share == "" || f.archive == "":
		return packages.Shared{}, &sandbox.Error{Kind: sandbox.Invalid, Op: "--package-share", Msg: "it goes with --package-archive, and the other way round",
			Fix: "--package-share redis://HOST:6379/0 --package-archive file:///DIR"}
	case shared.HasPassword(f.share) && !slices.Contains(a.configured, "package-share"):
		return packages.Shared{}, &sandbox.Error{Kind: sandbox.Invalid, Op: "--package-share", Msg: "other users of this machine can read a password on a command line",
			Fix: "set " + variableOf("package-share") + ", or package_share in the configuration file"}
	}
	return shared.Open(f.share, f.archive)
}

func (a *app) packageConfig(f *packageFlags) (packages.Config, error) {
	config := packages.Config{Dir: f.cache, MaxBytes: int64(f.size), TTL: f.ttl, Indexes: map[string]packages.Index{}, Log: a.logger(), SeveralOwners: f.several}
	if config.Dir == "" {
		cache, ok := a.cacheDir()
		if !ok {
			return config, nil // without a home there is no cache, and so no packages
		}
		config.Dir = filepath.Join(cache, "packages")
	}
	var err error
	if config.Dir, err = filepath.Abs(config.Dir); err != nil {
		return config, err
	}
	for _, text := range f.indexes {
		name, address, ok := strings.Cut(text, "=")
		known := slices.ContainsFunc(lang.All(), func(l sandbox.Language) bool { return l.Installer != nil && l.Installer.Name == name && name != "" })
		u, err := url.Parse(address)
		if !ok || !known || !strings.Contains(address, "://") || err != nil {
			return config, &sandbox.Error{Kind: sandbox.Invalid, Op: "--package-index", Msg: "it is not LANGUAGE=URL, with a language that has packages", // the address may hold a password
				Fix: "--package-index python=https://index.example.org/simple"}
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

// checkIndex refuses an address with a name whose password would not stay with the gate, or would not reach the index: the gate puts it into
// encrypted requests to a named host alone.
func (a *app) checkIndex(language string, u *url.URL) error {
	if u.User == nil {
		return nil
	}
	e := &sandbox.Error{Kind: sandbox.Invalid, Op: "--package-index",
		Fix: "set " + variableOf("package-index") + "=" + language + "=https://NAME:PASSWORD@HOST/..., or package_index in the configuration file"}
	if password, _ := u.User.Password(); password == "" {
		e.Msg = "the address has a name without a password, and only a password stays with the gate"
		return e
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil || u.Scheme != "https" {
		e.Msg = "a password is sent by https alone, to a host with a name"
		return e
	}
	if !slices.Contains(a.configured, "package-index") {
		e.Msg = "other users of this machine can read a password on a command line"
		return e
	}
	return nil
}

// neededFlags say which packages a run gets.
type neededFlags struct {
	packageFlags
	names      []string
	allowBuild bool
	lock       string
}

func (f *neededFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.names, "packages", "p", nil, "install a `REQUIREMENT`, or auto: what is imported (repeatable)")
	flags.BoolVar(&f.allowBuild, "allow-build", false, "let packages run code of theirs while they are installed")
	f.packageFlags.add(flags)
	flags.StringVar(&f.lock, "lock", "", "install exactly what this `FILE` lists, from fumehood deps lock")
	completions(cmd, "packages", sandbox.PackagesAuto, packagesNone)
}

// packagesNone is --packages where a variable or the configuration says otherwise.
const packagesNone = "none"

// packages are those for code, or for a command.
func (a *app) packages(f *neededFlags, isCommand bool) (sandbox.Packages, error) {
	if slices.Contains(a.configured, "packages") && isCommand {
		f.names = nil // a standing wish is for code
	}
	names := f.names
	if slices.Contains(names, packagesNone) {
		if len(names) > 1 {
			return sandbox.Packages{}, sandbox.Invalidf("--packages", "none goes with nothing else")
		}
		names = nil
	}
	lock := ""
	if f.lock != "" {
		text, err := a.readNamed(f.lock, maxLock, sandbox.FormatBytes(maxLock)+" of a lock")
		if err != nil {
			return sandbox.Packages{}, &sandbox.Error{Kind: sandbox.Invalid, Op: "--lock", Err: err}
		}
		lock = string(text)
	}
	return sandbox.PackagesOf(names, f.allowBuild, lock), nil
}

const maxLock = 1 << 20 // bytes
