package diagnose

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// noModule returns the hint about a missing module, with an offer of packages.
func (f *Facts) noModule(name string) sandbox.Hint {
	first, _, _ := strings.Cut(name, ".")
	for _, l := range f.Languages {
		if isIts := f.Language == nil || f.Language.Name == l.Name; isIts && l.Apart[first] != "" {
			return sandbox.HintNoStandard{Name: name, Package: l.Apart[first]}
		}
	}
	h := sandbox.HintNoModule{Name: name}
	switch l := f.Language; {
	case l == nil || !f.canInstall(l):
	case len(f.Missing) > 0:
		return sandbox.HintNoPackage{Modules: PlainNames(f.Missing)}
	default:
		h.Offer = sandbox.Offer{Packages: true, ByName: f.Request.Packages.Auto, InCode: l.Installer.Magic != nil}
		if known := l.Installer.PackageOf(name); l.Installer.Valid(known) {
			h.Package = known
		}
	}
	return h
}

// noInstall returns the hint that an installer does not work, with an offer of packages instead.
func (f *Facts) noInstall(name string) sandbox.Hint {
	h := sandbox.HintNoInstall{Name: name}
	for _, l := range f.Languages {
		if slices.Contains(l.Installers, name) && f.canInstall(&l) {
			h.Language = l.Title
			h.Offer = sandbox.Offer{Packages: true, ByName: true, InCode: l.Installer.Magic != nil}
		}
	}
	return h
}

// notBuilt returns the hint that a package lacks its native part.
func (f *Facts) notBuilt(name string) sandbox.Hint {
	h := sandbox.HintNotBuilt{Named: sandbox.Named{Name: name}}
	if f.Language != nil && f.canInstall(f.Language) {
		h.Offer = sandbox.Offer{Packages: true, ByName: true, Package: name}
	}
	return h
}

// noFont returns the hint about letters that no font has. A program reports them by a warning, whatever its end.
func (f *Facts) noFont() sandbox.Hint {
	if text := end(&f.Result.Stderr); strings.Contains(text, " missing from ") {
		for _, s := range f.symptoms(text) {
			if code, err := strconv.Atoi(s.Name); err == nil && s.Kind == sandbox.SymptomNoFont {
				return sandbox.HintNoFont{Package: fontPackage(rune(code))}
			}
		}
	}
	return nil
}

// fontPackage names the Debian package of a font with a character.
func fontPackage(r rune) string {
	switch {
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo),
		r >= 0x3000 && r < 0x3040, r >= 0xFF00 && r < 0xFFF0: // punctuation, and wide letters
		return "fonts-noto-cjk"
	case unicode.In(r, unicode.So, unicode.Sk):
		return "fonts-symbola"
	}
	return "fonts-noto-core"
}

// canInstall reports whether packages of a language can be requested.
func (f *Facts) canInstall(l *sandbox.Language) bool {
	return l.Installer != nil && l.Installer.Install != nil && f.Packages
}

// missingCommands returns the commands that a script names and that are missing, with their Debian packages, or nil.
func (f *Facts) missingCommands() sandbox.Hint {
	if f.Language == nil || f.Language.Installer == nil || f.Language.Installer.Install != nil || len(f.Missing) == 0 {
		return nil
	}
	h := sandbox.HintNoCommands{}
	for _, name := range PlainNames(f.Missing) {
		h.Commands = append(h.Commands, sandbox.MissingCommand{Name: name, Package: f.Language.Installer.Names[name]})
	}
	return h
}

// packageOfCommand is the Debian package of a command, or "".
func (f *Facts) packageOfCommand(name string) string {
	for _, l := range f.Languages {
		if l.Installer != nil && l.Installer.Install == nil && l.Installer.Names[name] != "" {
			return l.Installer.Names[name]
		}
	}
	return ""
}
