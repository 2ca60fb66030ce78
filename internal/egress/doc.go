// Package egress is the gate of a sandbox's network: every packet that leaves passes it, and what its rules do not allow does not leave.
//
// The sandbox has one interface. The gate holds the outer end of it and runs a TCP/IP stack of its own there (gVisor's), so connections
// end in the gate, which dials out itself. Nothing of the host's network is configured. If the gate ends, the interface loses its carrier
// and nothing passes.
//
// # What passes
//
// TCP and UDP, over IPv4 and IPv6. A frame must come from the sandbox's own address. The gate answers ARP, neighbour solicitations and
// pings that are for itself. All else is dropped: other protocols, IP options and extension headers, other sources, pings to elsewhere.
//
// # Names
//
// The gate is the resolver, over UDP and TCP. It resolves names that the rules allow, with the host's resolver, and hands out A and AAAA
// records only; other types have no data, so nobody is given the keys of Encrypted Client Hello or the service records that announce
// HTTP/3. It remembers which addresses it handed out for which name. In mode restricted a connection passes if a rule lists its address, or
// if it goes to an address handed out for a name that the rules allow at this port. Addresses that are not public are never handed out for
// a name, unless a rule lists the address too: rebinding a name finds nothing.
//
// An address may serve many names. So a connection that is allowed by name is read until it says whom it is for: the server name of TLS
// (RFC 6066) and the Host of each HTTP/1 request must be a name that is allowed and was resolved to that address. At ports 80 and 443 such
// a connection must be TLS or HTTP/1, and the server is not heard before the client has said so. At other ports the server may speak
// first, and what is neither TLS nor HTTP/1 passes unread.
//
// # Decisions
//
//   - QUIC cannot be read in passing: UDP to port 443 is refused in mode restricted, and in mode full if a name is denied. Clients fall
//     back to TCP.
//   - Other UDP passes in mode restricted only by a rule for the address, or by one for the name that gives the port.
//   - A TLS hello with the extension of Encrypted Client Hello (RFC 9849) hides the name, or pretends to. It is refused where names decide.
//     Chromium pretends by default; --disable-features=EncryptedClientHello ends that.
//   - DNS over HTTPS or TLS is a connection like any other: refused unless a rule allows the resolver. What it answers opens nothing, since
//     only the gate's own answers count.
//   - HTTP/2 without TLS, and requests that two readers could read in two ways, are refused where names decide. So is CONNECT, which would
//     hide the destination.
//
// # Requests within TLS
//
// For hosts that have a secret, or that the policy lists for it, TLS ends in the gate: with a certificate of the sandbox's own authority on
// this side, and with the host's roots on the other. net/http reads each request, over HTTP/1 or HTTP/2, and writes it anew to the address that the
// sandbox chose. A request for another name than the connection's gets 421 (RFC 9110, section 15.5.20): no fronting. The rules decide about each
// request, so a connection that is kept alive has no more rights than a new one. Values of secrets go into headers of requests to the
// hosts that they are bound to; answers that repeat them have placeholders instead.
//
// # What the gate cannot see
//
// Within other TLS the Host may differ from the server name (domain fronting). An allowed service may carry data elsewhere. Labels below an
// allowed wildcard reach the name servers of that domain.
package egress
