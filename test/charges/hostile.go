package main

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"strings"
)

// hostile are operations with arguments that no usual client sends.
func (c *caller) hostile() []operation {
	query := func(path, note, pair string, count int) operation {
		o := get(path)
		o.note, o.query = note, "?"+strings.TrimSuffix(strings.Repeat(pair+"&", count), "&")
		return o
	}
	long := strings.Repeat("a.", 100) + "example.org"
	var rules, wide, addresses []string
	for i := range 900 {
		rules = append(rules, fmt.Sprint("h", i, ".", long))
		addresses = append(addresses, fmt.Sprintf("64:ff9b::9.9.%d.%d", i/250, i%250))
		wide = append(wide, fmt.Sprint(i, ".", strings.Repeat("ä.", 30), "example.org"))
	}
	network := func(note string, list []string) operation {
		return operation{method: "PATCH", path: root + "/s2", note: note,
			body: encoded(object{"network": object{"allow": list}})}
	}
	var secrets []object
	for i := range 64 {
		secrets = append(secrets, object{"name": fmt.Sprint("S", i), "hosts": rules[:14],
			"places": []string{"body", "query", "path"},
			"value":  strings.Repeat(fmt.Sprint("v\"é\\", i), 1000)[:6000]})
	}
	files := func(path string) []object {
		var list []object
		for i := range 10_000 {
			list = append(list, object{"path": fmt.Sprint(path, i), "content": ""})
		}
		return append(list, object{"path": "/", "content": ""})
	}
	var tools []object
	for i := range 64 {
		tools = append(tools, object{"name": fmt.Sprint("t", i), "description": strings.Repeat("d", 1000),
			"schema": object{"type": "object", "properties": object{"a": object{"type": "string"}}}})
	}
	once := refused(post("/sandboxes", "(once)", object{"envVars": object{"A": strings.Repeat("<", 1_000_000)}}))
	once.header = map[string]string{"Idempotency-Key": "k"}
	return []operation{
		query(root, "(many pairs)", "metadata=a:b", 2000),
		query(root+"/s1/runs", "(many pairs)", "metadata=a:b", 2000),
		refused(query(inside, "(unknown parameters)", "%6e%6e=b", 3000)),
		refused(query("/files", "(many pairs)", "path=a", 3000)),
		refused(query("/"+strings.Repeat("a/", 10), "(many pairs)", "a=b", 3000)),
		network("(rules)", rules), network("(addresses)", addresses), refused(network("(rules beyond ASCII)", wide)),
		refused(operation{method: "PATCH", path: root + "/s2", note: "(secrets)",
			body: encoded(object{"network": object{"secrets": secrets, "inspect": rules}})}),
		refused(post("/v1/run", "(files)", object{"code": "", "files": files("a/")})),
		refused(post("/v1/run", "(deep files)", object{"code": "", "files": files(strings.Repeat("a/", 100))})),
		refused(post("/v1/run", "(tools)", object{"code": "1", "language": "no", "tools": tools})),
		refused(post("/v1/run", "(escapes)", object{"language": "no", "code": strings.Repeat("\x01", 1_000_000)})),
		refused(post("/v1/run", "(unknown field)", object{strings.Repeat("x", 60_000): 1})),
		refused(post("/v1/run", "(packages)", object{"code": "1", "language": "no",
			"packages": strings.Split(strings.Repeat("a[b,c]>=1,<2;python_version<'3' ", 900), " ")})),
		refused(post("/v1/templates", "(steps)", object{"name": "x", "steps": files("")})),
		refused(post("/openai/v1/containers", "files", object{"name": "x", "file_ids": rules})),
		refused(post(inside+"/contexts/c/complete", "(long)",
			object{"code": strings.Repeat("é", 300_000), "cursor": -1})),
		post(inside+"/contexts/c/complete", "(100 KB)",
			object{"code": strings.Repeat("import os\n", 10_000), "cursor": 99_999}),
		once, refused(post("/mcp", "(a long id)",
			object{"jsonrpc": "2.0", "id": strings.Repeat("<", 1_000_000), "method": "tools/call"})),
		form("/openai/v1/containers/"+c.container+"/files", 5000),
		get("/openai/v1/containers/" + c.container + "/files/" + f1), get("/openai/v1/containers/" + c.container +
			"/files/" + f1 + "/content"),
	}
}

// f1 is the id of the file "f1" of a container.
const f1 = "cfile_ZjE"

// form is a form of many short parts, none of which is a file.
func form(path string, parts int) operation {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for range parts {
		part, _ := w.CreateFormField("x")
		_, _ = part.Write([]byte("y"))
	}
	_ = w.Close()
	return refused(operation{method: "POST", path: path, note: "(many parts)", body: body.Bytes(),
		header: map[string]string{"Content-Type": w.FormDataContentType()}})
}
