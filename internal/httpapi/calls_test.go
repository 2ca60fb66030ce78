package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// TestAnswerRoom: the body of an answer counts until the driver has it, although its client has left.
func TestAnswerRoom(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	r.ok(201, "POST", "/v1/sandboxes", jsonOf(object{"name": "web"}))
	x := parse[api.Run](t, r.ok(202, "POST", "/v1/sandboxes/web/run", jsonOf(object{"background": true,
		"tools": []object{{"name": "ask", "schema": object{"type": "object"}}},
		"code":  "import os\nopen('pid', 'w').write(str(os.getpid()))\nask()"})))
	run := "/v1/sandboxes/web/runs/" + string(x.ID)
	eventually(t, "the code calls", func() bool {
		_, text := r.do("GET", run+"/events?follow=0", "", nil)
		return strings.Contains(text, "event: call")
	})
	signal := func(name string) {
		r.ok(200, "POST", "/v1/sandboxes/web/run", jsonOf(object{"command": []string{"sh", "-c",
			"kill -" + name + " $(cat pid)"}}))
	}
	signal("STOP")
	const size = 4 << 20 // more than a pipe holds
	ctx, leave := context.WithCancel(t.Context())
	sent := make(chan struct{}) // the whole request is on its way, also if the client leaves
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }})
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+r.addr+run+"/calls/1",
		strings.NewReader(jsonOf(object{"value": strings.Repeat("x", size)})))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	left := make(chan error)
	go func() {
		_, err := http.DefaultClient.Do(req)
		left <- err
	}()
	held := func() int64 {
		bodies, _ := r.server.Held()
		return bodies
	}
	<-sent
	eventually(t, "the answer is there", func() bool { return held() > size/2 })
	leave()
	if err := <-left; err == nil {
		t.Error("the driver has the answer")
	}
	time.Sleep(400 * time.Millisecond) // the server notices that its client has left
	if n := held(); n < size/2 {
		t.Errorf("%d bytes are held", n)
	}
	signal("CONT")
	eventually(t, "the driver has the answer", func() bool { return held() == 0 })
}
