// Package image keeps OCI images as root file systems, for backends without an image store.
//
// An image comes from a registry, an archive (docker save, OCI), an OCI layout or a folder. Its layers are unpacked one
// over the other into one tree of package trees, keyed by the chain of the digests of its layers; the names of images
// refer to trees. Images that begin with the same layers share their files by hard links, on disk and in the page
// cache.
//
// Layers are hostile. The digest of each is verified, links are resolved inside the tree by the kernel
// (openat2(2), RESOLVE_IN_ROOT), and its entries, bytes and the length of its paths are bounded. All files belong to
// the user of the store; set-id bits, devices, pipes and extended attributes are left out.
package image
