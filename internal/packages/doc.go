// Package packages supplies packages: it has a sandbox find out what code needs, another one install it, and keeps the result as a layer, a
// read-only folder that any number of sandboxes mount.
//
// # The way of a need
//
//   - A request that was answered within the last Config.TTL is answered from the cache: its key covers the language, the code, the files, the
//     index, and what identifies the root.
//   - Otherwise a sandbox without a network surveys: which imports are missing, which requirements are listed. Another, without code and files,
//     says which interpreter and installer the root has, once an hour.
//   - The set of requirements has a key too, with the interpreter's platform. Codes that need the same share one layer.
//   - Otherwise an installer sandbox gets the requirements, and a network that reaches the index alone. It has no files of the run and nothing of its
//     environment. Each need is installed once, however many ask at once, also from several processes. Only those with equal
//     terms (PackageNeed.Terms) share a worker, and its errors; the others wait for its lock, for a bounded time.
//   - What these sandboxes answer is hostile. One that ran code is believed about that code alone: a fresh one says which index the root has. What a
//     root's programs install serves that root alone.
//   - The files come out through the guest: regular files alone, with paths that are checked, of which the layer's digest is made.
//
// # The cache
//
// layers/DIGEST holds tree (the files), layer.json (what is in it), and used (one byte for each use; its lock keeps the layer while it is
// mounted). requests/KEY.json names the layer of a key; the oldest go when there are too many. work/ holds layers that are being made, each
// locked; whoever opens the cache removes those whose maker has died. A layer appears by one rename, so it is whole or not there.
//
// # The second tier
//
// What the cache lacks may come from other machines (Shared). The order is: the cache; the shared answer and its archive; the shared lock, and both
// again; an installation, its archive, its answer. Whatever fails there costs a bounded time, and then the packages are installed as if there were no
// second tier.
package packages
