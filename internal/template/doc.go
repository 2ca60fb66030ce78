// Package template builds images from a base image and steps: those of a Dockerfile, or a list.
//
// A step that runs a command does so in a builder, a sandbox with a writable root whose code is root inside. Its
// changes become a layer of the next step's root. Steps that copy files write a layer without a sandbox. Each layer is
// a tree of the store of images, cached by a hash of all that the step depends on: the steps before it, its instruction
// with its variables, and the copied files. So a second build repeats only what follows a changed line.
//
// Dockerfiles and files are the caller's; images and what builders leave are hostile.
package template
