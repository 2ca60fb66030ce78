package diagnose

import (
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// completeModule adds what packages could do about a missing module.
func (f *Facts) completeModule(h sandbox.Hint) sandbox.Hint {
	first, _, _ := strings.Cut(h.Name, ".")
	for _, l := range f.Languages {
		if isIts := f.Language == nil || f.Language.Name == l.Name; isIts && l.Apart[first] != "" {
			return sandbox.Hint{Code: sandbox.HintNoStandard, Name: h.Name, Package: l.Apart[first]}
		}
	}
	switch l := f.Language; {
	case l == nil || !f.canInstall(l):
	case len(f.Missing) > 0:
		return sandbox.Hint{Code: sandbox.HintNoPackage, Names: PlainNames(f.Missing)}
	default:
		if name := l.Installer.PackageOf(h.Name); l.Installer.Valid(name) {
			h.Package = name
		}
		h.CanInstall, h.ByName, h.InCode = true, f.Request.Packages.Auto, l.Installer.Magic != nil
	}
	return h
}

// completeInstaller adds how packages can be had that a program of a language's installs.
func (f *Facts) completeInstaller(h sandbox.Hint) sandbox.Hint {
	for _, l := range f.Languages {
		if slices.Contains(l.Installers, h.Name) && f.canInstall(&l) {
			h.CanInstall, h.ByName, h.InCode, h.By = true, true, l.Installer.Magic != nil, l.Title
		}
	}
	return h
}

// canInstall reports whether packages of a language can be asked for.
func (f *Facts) canInstall(l *sandbox.Language) bool {
	return l.Installer != nil && l.Installer.Install != nil && f.Packages
}

// missingCommands names the commands that a script names and that are not there, with their Debian packages.
func (f *Facts) missingCommands() (h sandbox.Hint, ok bool) {
	if f.Language == nil || f.Language.Installer == nil || f.Language.Installer.Install != nil || len(f.Missing) == 0 {
		return h, false
	}
	h = sandbox.Hint{Code: sandbox.HintNoCommands, Names: PlainNames(f.Missing)}
	for _, name := range h.Names {
		h.Others = append(h.Others, f.Language.Installer.Names[name])
	}
	return h, true
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

// completeStart adds to a missing command what would do instead.
func (f *Facts) completeStart() sandbox.Hint {
	h := f.NotStarted
	if h.Code == sandbox.HintNoCommand {
		h.Others, h.Package = f.interpretersOf(h.Name), f.packageOfCommand(h.Name)
	}
	return h
}
