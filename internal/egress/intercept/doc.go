// Package intercept ends the TLS of connections whose requests the gate must read: those to hosts of secrets, and those
// that the policy lists for inspection.
//
//   - authority.go signs a certificate for each name, with an authority that only this sandbox trusts
//   - server.go ends TLS and serves HTTP/1 and HTTP/2
//   - request.go decides about one request and forwards it
//   - headers.go replaces placeholders in headers by the values of secrets, beyondheaders.go elsewhere
//   - transport.go connects to servers
//   - clean.go replaces values in answers by their placeholders; finder.go finds them
package intercept
