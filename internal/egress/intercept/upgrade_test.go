package intercept

import "testing"

// TestMayUpgrade: a request upgrades to websocket alone, or not at all.
func TestMayUpgrade(t *testing.T) {
	for _, c := range []struct {
		to   []string
		want bool
	}{
		{nil, true}, {[]string{"websocket"}, true}, {[]string{" WebSocket\t"}, true},
		{[]string{""}, false}, {[]string{"h2c"}, false}, {[]string{"TLS/1.0"}, false},
		{[]string{"websocket, h2c"}, false},
		{[]string{"h2c, websocket"}, false}, {[]string{"websocket", "websocket"}, false},
		{[]string{"websocket", "h2c"}, false}, {[]string{"websocket/13"}, false}, {[]string{"ẇebsocket"}, false},
		{[]string{"webſocket"}, false}, // strings.EqualFold takes this letter for an s
	} {
		if got := mayUpgrade(c.to); got != c.want {
			t.Errorf("%q: %v", c.to, got)
		}
	}
}
