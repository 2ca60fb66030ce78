package main

// defaultBackend is that of runs that name none.
const defaultBackend = "native"
