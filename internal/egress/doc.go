// Package egress is the gate of a sandbox's network: every packet that leaves the sandbox passes it. The gate drops
// packets and resets connections that the rules do not allow.
//
// The sandbox has one interface. The gate holds its outer end and runs a TCP/IP stack of its own there (gVisor's), so
// connections end in the gate, which dials out itself. The host's network is not configured. If the gate ends, the
// interface loses its carrier and nothing passes.
//
// # Who enforces what
//
//   - Frames: packetfilter.go. TCP and UDP over IPv4 and IPv6 pass, from the sandbox's own address. The gate answers
//     ARP, neighbour solicitations and pings for itself, and drops all else: other protocols, IP options and extension
//     headers, other sources, pings to elsewhere.
//   - Destinations: Rules.Decide (rules/decide.go), for each TCP connection (tcp.go) and each UDP session (udp.go), and
//     again for open ones when the policy changes (reconsider in conn.go and udp.go).
//   - Addresses of the host, broadcast and multicast: the kernel's routing (route_linux.go), for each flow before and
//     after it is dialled (decide and dial in flow.go), and each second of a UDP session.
//   - Names to resolve: Rules.DecideLookup and Rules.MayResolveTo (rules/decide.go), in the resolver (dns.go).
//   - Names that a connection states: Rules.CheckName (rules/namecheck.go), for TLS hellos and the Host of each HTTP/1
//     request (inspector.go), and for each request of intercepted TLS (intercept/request.go).
//   - Secrets: intercept/headers.go inserts values into headers, intercept/clean.go removes them from answers.
//   - Bounds of connections, rate and bytes: meter.go. Bounds of all gates and of an owner's: budget.go.
//   - CPU time of the gate: pace.go.
//
// # Names
//
// The gate is the resolver, over UDP and TCP. It resolves names that the rules allow, with the host's resolver, and
// returns only A and AAAA records. It asks no more often than the sandbox may connect, and keeps answers for seconds
// (resolve.go). So no client gets the keys of Encrypted Client Hello, or the service records that
// announce HTTP/3. The gate remembers the names that it resolved to each address (pins.go). In mode restricted a
// connection passes if a rule lists its address, or if a name that was resolved to the address is allowed at this port.
// Addresses that are not public are never returned for a name, unless a rule lists the address too: this defeats DNS
// rebinding.
//
// An address may serve many names. So a connection that is allowed by name is read until it states a name: the server
// name of TLS (RFC 6066), or the Host of an HTTP/1 request. The name must be allowed and resolved to that address. At
// ports 80 and 443, and where the gate reads the requests to a name of the address, such a connection must be TLS or
// HTTP/1, and the server may not speak before the client has stated a name. A second hello that a server requests
// (HelloRetryRequest) must have the same name. At other ports the server may speak first,
// and other protocols pass unread. A connection that begins in another protocol ends if a line of a request follows
// before the server has spoken, or if the server answers in HTTP: it would have read a Host that the gate did not.
//
// # Decisions
//
//   - QUIC hides the name and the requests: UDP to port 443 is refused in mode restricted, and in mode full if a name
//     is denied. UDP to a port is refused if the gate reads the requests of some name there. Clients fall back to TCP.
//   - Other UDP passes in mode restricted only by a rule for the address, or by one for the name that gives the port.
//   - A TLS hello with the extension of Encrypted Client Hello (RFC 9849) hides the name, or pretends to. It is refused
//     where names decide. Chromium pretends by default; --disable-features=EncryptedClientHello ends that.
//   - DNS over HTTPS or TLS is an ordinary connection: refused unless a rule allows the resolver. Its answers allow
//     nothing, since only the gate's own answers count.
//   - HTTP/2 without TLS, and requests that two readers could read in two ways, are refused where names decide. So is
//     CONNECT, which would hide the destination.
//
// # Requests within TLS
//
// TLS to hosts of secrets, and to hosts that the policy lists for inspection, ends in the gate (package intercept):
// with a certificate of the sandbox's own authority on this side, and with the host's roots on the other. The rules
// decide about each request, so a reused connection has no more rights than a new one. A request for another name than
// the connection's gets 421 (RFC 9110, section 15.5.20), which prevents domain fronting.
//
// # Limits
//
// Within other TLS the Host may differ from the server name (domain fronting). An allowed service may carry data
// elsewhere. Labels below an allowed wildcard reach the name servers of that domain.
package egress
