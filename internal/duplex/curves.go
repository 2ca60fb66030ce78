package duplex

import "crypto/tls"

// Curves are the key exchanges of TLS for untrusted peers: those of package tls without P-521, which takes 3 ms of CPU
// time on each side of a connection.
var Curves = []tls.CurveID{tls.X25519MLKEM768, tls.SecP256r1MLKEM768, tls.SecP384r1MLKEM1024, tls.X25519,
	tls.CurveP256, tls.CurveP384}
