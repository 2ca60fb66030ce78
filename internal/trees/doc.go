// Package trees keeps read-only folder trees by digest, in a folder that any number of processes share.
//
// A tree is filled as a draft and published by one rename, so that no process finds half of it. A process that uses a
// tree holds a shared lock on it; a tree is removed only under the exclusive lock. The drafts of a process that died
// are removed when another process opens the store.
package trees
