// Package packages supplies packages to runs: one sandbox surveys what code needs, another installs it, and the result
// is kept as a layer, a read-only folder that any number of sandboxes mount.
//
// # How a need is answered
//
//   - A request that was answered within Config.TTL is answered from the cache. Its key covers the language, the code,
//     the files, the index, and the identity of the root.
//   - Otherwise a sandbox without a network surveys which imports are missing and which requirements are listed.
//     Another one, without code and files, reports the interpreter and the installer of the root, at most once an hour.
//   - The set of requirements also has a key, with the interpreter's platform. Codes that need the same set share one
//     layer.
//   - Otherwise an installer sandbox gets the requirements and a network that reaches only the index. It has no files
//     of the run and nothing of its environment. Concurrent requests for one set share one installation, also across
//     processes. Only needs with equal terms (PackageNeed.Terms) share a worker and its errors. The others wait for its
//     lock, for a bounded time.
//   - The answers of these sandboxes are hostile. A sandbox that ran code is trusted about that code only: a fresh one
//     reports the index of the root. A layer that the programs of a root installed serves only that root.
//   - The files come out through the guest: only regular files, with checked paths, from which the digest of the layer
//     is computed.
//
// # The cache
//
// layers/DIGEST holds tree (the files), layer.json (their description), and used (one byte for each use; its lock keeps
// the layer while it is mounted). requests/KEY.json names the layer of a key; the oldest are removed when there are too
// many. work/ holds layers that are being made, each locked. Opening the cache removes those whose process has died. A
// rename publishes a layer, so it is complete or absent.
//
// # The second tier
//
// Other machines may supply what the cache lacks (Shared). The order is: the cache; the shared answer and its archive;
// the shared lock, and both again; an installation, its archive, its answer. A failure there costs a bounded time. Then
// the packages are installed as if there were no second tier.
package packages
