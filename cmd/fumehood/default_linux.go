package main

// defaultBackend is the backend of runs that name none.
const defaultBackend = "native"
