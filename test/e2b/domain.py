"""E2B's published Python SDK, unmodified, against a server that E2B_DOMAIN names: HTTPS, and a name for each port."""

import json
import os
import socket
import ssl
import time
import urllib.error
import urllib.request

from client import raises
from e2b_code_interpreter import FileNotFoundException, Sandbox
from names import domain


opener = urllib.request.build_opener(
    urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"]))
)

# A site that answers with the headers of each request.
SITE = """
import http.server, json
class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = json.dumps([self.path, dict(self.headers)]).encode()
        self.send_response(200)
        self.send_header("Set-Cookie", "a=b; Domain=%s; Path=/")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
http.server.HTTPServer(("127.0.0.1", 8000), Site).serve_forever()
""" % domain

PROBE = "(exec 3<>/dev/tcp/127.0.0.1/8000) 2>/dev/null && echo open || echo closed"


def protocols():
    """Clients that offer HTTP/2, as the SDK does, get it. Those of WebSockets offer HTTP/1.1."""
    context = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
    port = int(os.environ["E2B_DOMAIN"].split(":")[1])
    for offer, want in (["h2", "http/1.1"], "h2"), (["http/1.1"], "http/1.1"):
        context.set_alpn_protocols(offer)
        with socket.create_connection(("127.0.0.1", port)) as plain:
            with context.wrap_socket(plain, server_hostname="api." + domain) as secure:
                assert secure.selected_alpn_protocol() == want


def fetch(url, data=None, **headers):
    request = urllib.request.Request(url, data, {name.replace("_", "-"): value for name, value in headers.items()})
    with opener.open(request, timeout=20) as answer:
        return answer.headers, answer.read()


def refused(status, url, data=None, **headers):
    e = raises(urllib.error.HTTPError, fetch, url, data, **headers)
    assert e.code == status, (e.code, e.read())
    return e.read().decode()


def start(s):
    s.files.write("site.py", SITE)
    s.commands.run("python3 site.py", background=True)
    for _ in range(100):
        if s.commands.run(PROBE).stdout == "open\n":
            return
        time.sleep(0.1)
    raise AssertionError("the site does not listen")


def ports(s):
    start(s)
    host = s.get_host(8000)
    assert host.split(":")[0] == f"8000-{s.sandbox_id}.{domain}", host
    url, key, token = "https://" + host, os.environ["E2B_API_KEY"], s._envd_access_token
    headers, body = fetch(url + "/a%2fb?c=d", X_API_Key=key, X_Access_Token=token, E2b_Traffic_Access_Token=token,
                          Authorization="Bearer " + key, Cookie="mine=1", Origin="https://elsewhere.example")
    path, received = json.loads(body)
    assert path == "/a%2fb?c=d" and received["Host"] == host and received["Cookie"] == "mine=1", (path, received)
    assert key not in body.decode() and token not in body.decode(), received
    assert headers["Set-Cookie"] == "a=b; Path=/" and headers["Access-Control-Allow-Origin"] == "*", headers
    assert headers["Content-Security-Policy"] is None and headers["X-Content-Type-Options"] is None, headers
    assert "Authorization" in json.loads(fetch(url, Authorization="Basic bWU6bWU=")[1])[1]  # the program's own
    closed = json.loads(refused(502, "https://" + s.get_host(8001)))
    assert closed["message"] == "The sandbox is running but port is not open" and closed["port"] == 8001, closed
    refused(400, f"https://x-{s.sandbox_id}.{os.environ['E2B_DOMAIN']}")
    gone = url.replace(s.sandbox_id, s.sandbox_id[:-4] + "aaaa")
    assert json.loads(refused(502, gone))["message"] == "The sandbox was not found"
    control = f"https://api.{os.environ['E2B_DOMAIN']}/sandboxes"
    refused(401, control)
    refused(403, control, X_API_Key=key, Origin=url)  # a page of a program is another site


def private():
    s = Sandbox.create(network={"allow_public_traffic": False, "mask_request_host": "localhost:${PORT}"})
    start(s)
    url = "https://" + s.get_host(8000)
    assert "traffic access token" in refused(403, url)
    _, body = fetch(url, E2b_Traffic_Access_Token=s.traffic_access_token)
    assert json.loads(body)[1]["Host"] == "localhost:8000", body
    assert s.kill()
    refused(502, url)


def signed(s):
    s.files.write("private/a b.txt", "secret")
    url = s.download_url("private/a b.txt")
    headers, body = fetch(url, Origin="https://elsewhere.example")
    assert body == b"secret", body
    refused(401, url.replace("private", "other"))
    refused(401, url.split("signature")[0])
    expired = s.download_url("private/a b.txt", use_signature_expiration=-1)
    assert json.loads(refused(401, expired)) == {"code": 401, "message": "signature is already expired"}
    assert fetch(s.download_url("private/a b.txt", use_signature_expiration=60))[1] == b"secret"
    refused(401, url, b"")  # a signature to read permits no write
    form = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nnew\r\n--b--\r\n'
    fetch(s.upload_url("private/new"), form, Content_Type="multipart/form-data; boundary=b")
    assert s.files.read("private/new") == "new"
    raises(FileNotFoundException, s.files.read, "private/none")


if __name__ == "__main__":
    protocols()
    sandbox = Sandbox.create()
    assert sandbox.run_code("1 + 1").text == "2" and sandbox.commands.run("echo hi").stdout == "hi\n"
    assert Sandbox.connect(sandbox.sandbox_id).is_running()
    ports(sandbox)
    signed(sandbox)
    private()
    assert sandbox.kill() and not sandbox.is_running()
    print("passed domain")
