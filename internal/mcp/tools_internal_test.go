package mcp

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestPanic: a panic in a tool ends its call, and neither the session nor the server.
func TestPanic(t *testing.T) {
	s := New(Config{Public: true, Log: slog.New(slog.DiscardHandler)})
	defer s.Close()
	near, far := sdk.NewInMemoryTransports()
	broken := tool{sdk.Tool{Name: "broken", InputSchema: taking(object{})},
		func(*call, json.RawMessage) (*sdk.CallToolResult, error) { panic("details of the host") }}
	s.addTool(broken)
	inside, err := s.sdk.Connect(t.Context(), near, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), far, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 2 {
		r, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "broken"})
		if err != nil || !r.IsError {
			t.Fatal(r, err)
		}
		if text := r.Content[0].(*sdk.TextContent).Text; strings.Contains(text, "of the host") {
			t.Errorf("%q", text)
		}
	}
}
