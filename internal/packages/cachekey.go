package packages

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// keyVersion is part of every key. A change to the format of layers requires a new one.
const keyVersion = "2"

// keyer hashes fields with their lengths, so that different lists of fields have different keys.
type keyer struct{ sum hash.Hash }

func newKeyer(kind string) keyer {
	k := keyer{sha256.New()}
	k.add(keyVersion, kind)
	return k
}

func (k keyer) add(fields ...string) {
	for _, f := range fields {
		k.bytes([]byte(f))
	}
}

func (k keyer) bytes(b []byte) {
	fmt.Fprintf(k.sum, "%d:", len(b))
	k.sum.Write(b)
}

func (k keyer) key() string { return hex.EncodeToString(k.sum.Sum(nil)) }

// requestKey returns the key of a need. It is "" if the survey sees files that are unknown here.
func requestKey(need *sandbox.PackageNeed, index Index) string {
	if need.Auto && need.Open {
		return ""
	}
	k := newKeyer("request")
	k.add(need.Language.Name, withoutPassword(index.URL))
	k.add(strconv.FormatBool(need.AllowBuild), strconv.FormatBool(need.Auto))
	k.add(rootIdentity(need.Root, need.Language.Installer.Witnesses)...)
	k.add(strconv.Itoa(len(need.Requirements)))
	k.add(need.Requirements...)
	k.add(need.Lock)
	k.add(presentPins(need)...)
	k.add(lowLimits(need)...)
	if stated := statedImports(need); len(stated) > 0 {
		k.add("imports", need.Name, strconv.Itoa(len(stated)))
		k.add(stated...)
	} else if need.Auto {
		k.add("code", need.Name)
		k.bytes(need.Code)
		files := slices.Clone(need.Files)
		slices.SortFunc(files, func(a, b sandbox.File) int { return strings.Compare(a.Path, b.Path) })
		for _, f := range files {
			k.add(f.Path)
			k.bytes(f.Data)
		}
	}
	return k.key()
}

// withoutPassword returns an address without its password: other machines can read keys, and guess what was hashed.
func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	u.User = url.User(u.User.Username())
	return u.String()
}

// presentPins returns the names and versions of the packages that a need is added to, and what installers get of them:
// code that built one may have written the texts of others.
func presentPins(need *sandbox.PackageNeed) (pins []string) {
	if need.Present == nil {
		return nil
	}
	for _, p := range need.Present.Packages {
		pins = append(pins, p.Name+"=="+p.Version)
	}
	slices.Sort(pins)
	texts := slices.Sorted(slices.Values(need.Present.Texts))
	return slices.Concat([]string{"present", strconv.Itoa(len(pins))}, pins, []string{strconv.Itoa(len(texts))}, texts)
}

// lowLimits returns the limits of a need that are lower than those of an installation. A survey has no higher ones.
func lowLimits(need *sandbox.PackageNeed) (low []string) {
	for _, name := range sandbox.LimitNames {
		if most := need.Lowered.Get(name); most > 0 && most < installLimits.Get(name) {
			low = append(low, "lowered", string(name), strconv.FormatInt(most, 10))
		}
	}
	return low
}

// statedImports returns the sorted imports of code without files, where the host can determine them. All code with the
// same imports has one key.
func statedImports(need *sandbox.PackageNeed) (stated []string) {
	in := need.Language.Installer
	if !need.Auto || in.Imports == nil || len(need.Files) > 0 {
		return nil
	}
	for _, i := range in.Imports(need.Code) {
		stated = append(stated, fmt.Sprintf("%s %t", i.Name, i.Optional))
	}
	slices.Sort(stated)
	return slices.Compact(stated)
}

// rootIdentity identifies a root by the files that installing packages for its interpreter changes.
func rootIdentity(root sandbox.Root, witnesses []string) []string {
	if root.Image != "" {
		return []string{"image", cmp.Or(root.Digest, root.Image), root.Settings}
	}
	witnessed := []string{"dir", root.Dir}
	inside, err := os.OpenRoot("/" + strings.TrimPrefix(root.Dir, "/"))
	if err != nil {
		return witnessed
	}
	defer inside.Close()
	for _, name := range witnesses {
		if info, err := inside.Stat(name); err == nil {
			witnessed = append(witnessed, name, strconv.FormatInt(info.Size(), 10), info.ModTime().UTC().String())
		}
	}
	return witnessed
}

// setKey returns the key of a set of packages. It is the same for all requests of one root with the same limits.
func setKey(need *sandbox.PackageNeed, platform, index string, order *sandbox.PackageOrder) string {
	k := newKeyer("set")
	// The installer is a program of the root, which may be hostile. So may be the variables that it gets of an image.
	k.add(cmp.Or(need.Root.Digest, need.Root.Image), need.Root.Settings, need.Root.Dir)
	k.add(need.Language.Installer.At, platform, withoutPassword(index), strconv.FormatBool(order.AllowBuild))
	for _, list := range [][]string{order.Requirements, order.Found} {
		k.add(strconv.Itoa(len(list)))
		k.add(list...)
	}
	k.add(order.Lock)
	k.add(presentPins(need)...)
	k.add(lowLimits(need)...)
	return k.key()
}
