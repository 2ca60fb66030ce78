package sniff

import "encoding/binary"

// BeginsQUIC reports whether a datagram may begin a connection of QUIC: it has a long header with a version that
// servers support (RFC 9000, section 17.2; RFC 9369), or a draft of it.
func BeginsQUIC(b []byte) bool {
	const long, drafts = 0x80, 0xff0000
	if len(b) < 5 || b[0]&long == 0 {
		return false
	}
	version := binary.BigEndian.Uint32(b[1:])
	return version == 1 || version == 0x6b3343cf || version>>8 == drafts
}
