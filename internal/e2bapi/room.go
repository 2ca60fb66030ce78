package e2bapi

import (
	"context"
	"slices"

	pb "github.com/fumehood-dev/fumehood/internal/e2bapi/generated/filesystem"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// called is the context key of a call.
type called struct{}

// call is a call of a client to a sandbox.
type call struct {
	sandbox *engine.Sandbox
	server  *httpd.Server
	w       *httpd.Response
	files   *metadata

	held, reserved int64 // bytes of its answer, and of the room for answers
}

func callIn(ctx context.Context) *call { return ctx.Value(called{}).(*call) }

func sandboxIn(ctx context.Context) *engine.Sandbox { return callIn(ctx).sandbox }

// The memory of an answer that is built before it is sent.
const (
	answerStep  = 1 << 20 // is reserved at a time
	entryBytes  = 2 << 10 // of an entry without its texts: as a value, as JSON with its growth, and compressed
	textCopies  = 3       // of a text in JSON: the message, its growth, and compressed
	largeFactor = 5       // of a large event: as it was logged, decoded, and as JSON with its growth
)

// hold counts an entry of an answer with these texts.
func (c *call) hold(texts ...string) error {
	c.held += entryBytes
	c.w.Steps(1)
	for _, text := range texts {
		c.held += int64(len(text) + textCopies*quoted(text))
	}
	need := c.held - httpd.FreeAnswer - c.reserved
	if need <= 0 {
		return nil
	}
	need = max(need, answerStep)
	c.reserved += need
	return c.server.TryReserve(c.w, need)
}

// wordBytes is what a word of a request takes besides its text: where it was decoded, and in the run.
const wordBytes = 32

// holdRequest counts what a process holds of its request.
func holdRequest(ctx context.Context, r *sandbox.Request) (*httpd.Body, error) {
	size := 0
	for _, word := range slices.Concat(r.Command, r.Env, pairs(r.Metadata)) {
		size += wordBytes + len(word)
	}
	return callIn(ctx).server.HoldRequest(callIn(ctx).w, int64(size))
}

// holdEntry counts the description of a file, which may be nil.
func (c *call) holdEntry(e *pb.EntryInfo) error {
	return c.hold(append(pairs(e.GetMetadata()), e.GetPath(), e.GetName(), e.GetSymlinkTarget())...)
}

// pairs returns the names and values of metadata.
func pairs(metadata map[string]string) (texts []string) {
	for name, value := range metadata {
		texts = append(texts, name, value)
	}
	return texts
}

// quoted is the most bytes of a text in JSON (RFC 8259, section 7).
func quoted(text string) int {
	n := len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ':
			n += len(`\u0001`) - 1
		case c == '"' || c == '\\':
			n++
		}
	}
	return n
}
