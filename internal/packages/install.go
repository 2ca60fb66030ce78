package packages

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// orderDir is the folder that an installer fills.
const orderDir = sandbox.Workspace + "/layer"

// order returns the sorted packages to install for a survey. It stops soon after the maximum. dropped lists imports
// that cannot be packages; optional lists the packages of imports that the code does not require.
func (j *job) order(s *sandbox.PackageSurvey) (o sandbox.PackageOrder, dropped, optional []string) {
	in := j.need.Language.Installer
	o = sandbox.PackageOrder{Dir: orderDir, Index: j.index.URL, AllowBuild: j.need.AllowBuild, Requirements: []string{},
		Found: []string{}, Lock: j.need.Lock}
	if o.Present = []string{}; j.need.Present != nil {
		o.Present = append(o.Present, j.need.Present.Texts...)
	}
	if o.Lock != "" {
		return o, nil, nil
	}
	for _, r := range s.Requirements {
		if r = strings.TrimSpace(r); in.Valid(r) && len(o.Requirements) <= maxRequirements {
			o.Requirements = append(o.Requirements, r)
		}
	}
	isRequested := func(name string) bool {
		return slices.ContainsFunc(o.Requirements, func(r string) bool { return in.NameOf(r) == in.NameOf(name) })
	}
	for _, f := range s.Found {
		name := in.PackageOf(f.Name)
		switch {
		case f.Optional:
			if in.Valid(name) && !isRequested(name) {
				optional = append(optional, name)
			}
		case !in.Valid(name):
			if plain := plainText(f.Name); len(plain) < 100 {
				dropped = append(dropped, plain)
			}
		case len(o.Found) <= maxRequirements && !isRequested(name):
			o.Found = append(o.Found, name)
		}
	}
	for _, list := range []*[]string{&o.Requirements, &o.Found, &optional} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return o, dropped, without(optional, o.Found)
}

// install installs an order in a new sandbox, and publishes the result as a layer.
func (j *job) install(ctx context.Context, s *sandbox.PackageSurvey, o sandbox.PackageOrder) (answer, error) {
	w := sandbox.Work{Command: j.need.Language.Installer.Install, Limits: installLimits, Output: progress(j.tell),
		Indexed: j.index.URL != "",
		From:    orderDir, MaxFiles: maxLayerFiles, MaxBytes: min(installLimits.DiskBytes, j.packager.config.MaxBytes)}
	var err error
	if w.Network, o.Index, err = j.network(s, o.Index); err != nil {
		return answer{}, err
	}
	d, err := j.cache.newDraft()
	if err != nil {
		return answer{}, cacheError(err)
	}
	w.Take = d.add
	j.tell("installing " + summary(j.further(o)))
	result, err := j.step(ctx, "install", w, o)
	var receipt sandbox.PackageReceipt
	if err == nil {
		if err = parse(result, &receipt); err != nil {
			err = &sandbox.Error{Kind: sandbox.Unavailable, Op: "packages: install", Err: err,
				Msg: "the installer printed an invalid answer"}
		} else {
			err = j.refusal(&receipt, result)
		}
	}
	if err == nil {
		err = j.check(&receipt, &o)
	}
	if err != nil {
		return answer{}, errors.Join(err, d.discard())
	}
	a := answer{Packages: receipt.Packages, Lock: receipt.Lock, Missing: receipt.Missing, Made: time.Now().UTC(),
		Requested: without(slices.Concat(o.Requirements, o.Found), receipt.Missing)}
	if len(d.files) == 0 {
		return a, d.discard()
	}
	a.Digest, err = d.publish(Layer{Language: j.need.Language.Name, At: j.need.Language.Installer.At,
		Requested: a.Requested, Packages: receipt.Packages})
	return a, cacheError(err)
}

// further returns an order without the requirements of packages that are there.
func (j *job) further(o sandbox.PackageOrder) sandbox.PackageOrder {
	if j.need.Present != nil {
		o.Requirements = without(slices.Clone(o.Requirements), j.need.Present.Requirements)
	}
	return o
}

// without returns a list without the words of another.
func without(list, words []string) []string {
	return slices.DeleteFunc(list, func(w string) bool { return slices.Contains(words, w) })
}

// check validates the receipt of an installer.
func (j *job) check(r *sandbox.PackageReceipt, o *sandbox.PackageOrder) error {
	if err := checkPackages(r.Packages); err != nil {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "packages: install", Err: err}
	}
	slices.SortFunc(r.Packages, func(a, b sandbox.Package) int { return strings.Compare(a.Name, b.Name) })
	r.Missing = slices.DeleteFunc(r.Missing, func(name string) bool { return !slices.Contains(o.Found, name) })
	if r.Lock = plainText(r.Lock); len(r.Lock) > maxLock || !j.need.Language.Installer.ValidLock(r.Lock) {
		r.Lock = ""
	}
	return nil
}

// checkPackages validates a list from a sandbox or another machine.
func checkPackages(list []sandbox.Package) error {
	for _, p := range list {
		if p.Name == "" || p.Version == "" {
			return errors.New("a package in the list has no name or no version")
		}
		words := p.Name + p.Version + p.Hash + strings.Join(p.Requires, "")
		if len(list) > maxPackages || len(words) > maxPackageWords || plainText(words) != words ||
			strings.Contains(words, "\n") {
			return errors.New("invalid list of packages")
		}
	}
	return nil
}

func cacheError(err error) error {
	if err == nil {
		return nil
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "packages: write to the cache", Err: err,
		Fix: "make it writable", Fixes: []sandbox.Hint{sandbox.FixPrune}}
}

// summary names the packages of an order, for a message.
func summary(o sandbox.PackageOrder) string {
	const most = 12
	names := slices.Concat(o.Requirements, o.Found)
	if o.Lock != "" {
		names = append(names, "the packages of the lock")
	}
	if more := len(names) - most; more > 0 {
		names = append(names[:most:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// secretName is the variable in an installer sandbox with the placeholder of the index's password.
const secretName = "FUMEHOOD_INDEX_SECRET"

// network returns the policy of an installer sandbox, which allows only the index. Its hosts are those of the operator
// or the root, so their names are trusted: company mirrors have private addresses. A password in the address of the
// index becomes a secret that the gate inserts into GET and HEAD requests. The returned address has none.
func (j *job) network(s *sandbox.PackageSurvey, index string) (p sandbox.NetworkPolicy, plain string, err error) {
	u, err := url.Parse(index)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return p, "", &sandbox.Error{Kind: sandbox.Invalid, Op: "packages", Msg: "the index has no usable address",
			Fixes: setParam("package_index", j.need.Language.Installer.Name+"=URL", "name one")}
	}
	a, notAddress := netip.ParseAddr(u.Hostname())
	if u.Hostname() == "localhost" || notAddress == nil && a.IsLoopback() {
		return p, "", j.badIndex(u, "is at a loopback address, which is the sandbox itself", hostSelf(u))
	}
	p.Mode = sandbox.NetworkRestricted
	p.Allow = []string{hostRule(u)}
	hosts := slices.Clone(j.index.Hosts)
	if j.index.URL == "" {
		for _, h := range append(s.Hosts, u.Host) {
			if !namedHost().MatchString(h) {
				const why = "is the root's default, and has an IP address or a name without a domain"
				return p, "", j.badIndex(u, why, u)
			}
		}
		hosts = append(hosts, s.Hosts...)
	}
	for _, h := range hosts {
		if len(h) < 256 && len(p.Allow) < 16 && !slices.Contains(p.Allow, h) {
			p.Allow = append(p.Allow, h)
		}
	}
	p.Trusted = p.Allow
	if password, has := u.User.Password(); has {
		p.Secrets = []sandbox.Secret{{Name: secretName, Hosts: []string{hostRule(u)},
			Headers: []string{"Authorization"}, Value: password}}
		p.ReadOnly = true // an installer is a program of the root, and may be hostile
		u.User = url.User(u.User.Username())
	}
	return p, u.String(), nil
}

// badIndex returns the error of an index that no installer may reach, with the flag that names it in another form.
func (j *job) badIndex(u *url.URL, why string, named *url.URL) error {
	address := *named
	address.User = nil // it may have a password
	return &sandbox.Error{Kind: sandbox.Unsupported, Op: "packages", Msg: plainText("the index " + u.Host + " " + why),
		Fixes: setParam("package_index", j.need.Language.Installer.Name+"="+plainText(address.String()), "name it")}
}

// hostSelf returns the address of an index on this machine as sandboxes reach it.
func hostSelf(u *url.URL) *url.URL {
	self := *u
	_, port, _ := net.SplitHostPort(hostRule(u))
	self.Host = net.JoinHostPort("host", port)
	return &self
}

// namedHost matches a host that a root may name as its index. An IP address could be private, and a pattern could match
// any host.
var namedHost = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[A-Za-z0-9-]+\.)+[A-Za-z][A-Za-z0-9-]*(?::\d+)?$`)
})

// hostRule returns the network rule that allows an index.
func hostRule(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// setParam is the fix to set one parameter of the request or the server.
func setParam(param, value, purpose string) []sandbox.Hint {
	return []sandbox.Hint{sandbox.FixParam{Param: param, Values: []string{value}, Purpose: purpose}}
}

// refusal returns the error of an installer that failed, or nil.
func (j *job) refusal(r *sandbox.PackageReceipt, result *sandbox.Result) error {
	if r.Error == "" {
		return nil
	}
	in := j.need.Language.Installer
	e := &sandbox.Error{Kind: sandbox.Invalid, Op: "packages",
		Msg: strings.TrimSpace(plainText(r.Error[:min(len(r.Error), maxWords)]))}
	h, refused := sandbox.HintOf[sandbox.HintRefused](result.Hints)
	switch {
	case refused:
		targets, hosts := make([]string, len(h.Refusals)), []string(nil)
		for i, r := range h.Refusals {
			targets[i] = r.Target + ": " + r.Reason
			if r.Allow != "" {
				hosts = append(hosts, r.Allow)
			}
		}
		e.Kind = sandbox.Unavailable
		e.Msg = "the network policy of the installer refused " + strings.Join(targets, ", ")
		if len(hosts) > 0 {
			e.Fixes = []sandbox.Hint{sandbox.FixParam{Param: "package_host", Values: []string{strings.Join(hosts, ",")},
				Purpose: "allow the host, if it serves the index or its files"}}
		}
	case r.Down:
		e.Kind, e.Fix = sandbox.Unavailable, "the index does not answer; try again"
	case r.Denied:
		e.Fixes = setParam("package_index", in.Name+"=https://NAME:PASSWORD@HOST/...",
			"give the name and the password that the index requires")
	case r.Unbuilt != "" && in.Valid(r.Unbuilt):
		why := "build an archive of " + r.Unbuilt + ", as none is built for this interpreter"
		e.Fixes = setParam("allow_build", "", why)
	case r.Unfit != "" && in.Valid(r.Unfit):
		e.Fix = r.Unfit + " has no archive for this interpreter and system; ask for another version, or use another " +
			"root or image"
	case r.Full:
		e.Kind, e.Fix = sandbox.TooLarge, "the packages need more disk space than an installer has; ask for fewer"
	case r.Unknown != "":
		e.Fix = "the index has no package of this name"
		if near := nearest.Name(r.Unknown, in.Popular); near != "" {
			e.Fix = "did you mean " + near + "?"
		}
	}
	return e
}

// progress reports the stderr of an installer, line by line.
func progress(tell func(string)) sandbox.OutputFunc {
	const longest = 200 // bytes
	var line []byte
	return func(stream sandbox.Stream, data []byte) {
		if stream != sandbox.Stderr {
			return
		}
		for _, b := range data {
			switch {
			case b == '\n' || b == '\r':
				if text := strings.TrimSpace(plainText(string(line))); text != "" {
					tell(text)
				}
				line = line[:0]
			case len(line) < longest:
				line = append(line, b)
			}
		}
	}
}
