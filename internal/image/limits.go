package image

import "github.com/fumehood-dev/fumehood/sandbox"

// Limits bound one image.
type Limits struct {
	Bytes   int64 // of all files, unpacked, in blocks of 4 KiB, at least one for each entry; holes count
	Entries int   // files, folders and links, and removals of such
	Links   int   // paths with links, which the kernel follows for up to 3 ms each

	Templates int // of one owner, in a store with Space
}

// after returns the limits of what is unpacked above a tree.
func (l Limits) after(below treeRecord) Limits {
	return Limits{Bytes: l.Bytes - below.Bytes, Entries: l.Entries - below.Entries, Links: l.Links}
}

// DefaultLimits are the limits of a store without others. Most images of language models' tools stay below 10 GiB.
var DefaultLimits = Limits{Bytes: 16 << 30, Entries: 2_000_000, Links: 100_000, Templates: 1000}

const (
	maxPath    = 4095      // bytes of a path or a link's target; PATH_MAX without its end
	maxDepth   = 256       // folders of a path
	maxPadding = 512 << 20 // bytes of the tar headers and padding of one layer, beyond the content of its files

	// bytes of the head of a registry's answer. Package net/http takes twenty times as much memory for many fields, and
	// accepts 10 MiB without a bound.
	maxHead      = 64 << 10
	maxDocument  = 2 << 20   // bytes of a manifest or a configuration from a registry; known ones have less than 1 MiB
	maxValues    = 100_000   // commas in one
	maxConfig    = 256 << 10 // bytes of JSON of what the store keeps of one; programs of known images get some KiB
	maxVariables = 1024      // of what the store keeps of one: each request for the image merges them
	maxLayers    = 500       // of one image; Docker makes at most 127
)

func invalid(format string, values ...any) error { return sandbox.Invalidf("image", format, values...) }

func tooLarge(what string) error {
	return &sandbox.Error{Kind: sandbox.TooLarge, Op: "image", Msg: "it has more " + what + " than allowed"}
}
