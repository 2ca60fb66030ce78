"""What listens on a port in a sandbox, for tests: an HTTP server that says what it gets, and one that means harm."""
import http.server, json, socket, sys, threading

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body=b"", status=200, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def told(self):
        """Answers with the request."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(json.dumps({"method": self.command, "path": self.path, "body": len(body),
                                "headers": [[k, v] for k, v in self.headers.items()]}).encode())

    def hostile(self):
        self.wfile.write(b"HTTP/1.1 103 Early Hints\r\nSet-Cookie: early=1\r\nLink: </v1/run>; rel=preload\r\n\r\n")
        self.answer(b"<script>fetch('/v1/run')</script>", 200, [("Set-Cookie", "a=b; Path=/"), ("Access-Control-Allow-Origin", "*"),
            ("Access-Control-Allow-Credentials", "true"), ("Service-Worker-Allowed", "/"), ("WWW-Authenticate", "Basic realm=x"),
            ("Clear-Site-Data", '"*"'), ("Content-Security-Policy", "default-src *"), ("Cache-Control", "public, max-age=99999"),
            ("X-Content-Type-Options", "sniff"), ("Connection", "Content-Security-Policy"), ("X-Request-Id", "forged"),
            ("Fumehood-Port", "1"), ("Content-Type", "text/html"), ("ETag", '"kept"')] +
            [(name, "forged") for name in self.headers.get("X-More", "").split()])

    def trailers(self):
        """Ends with trailers, of which it announces two."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Trailer", "Set-Cookie, Digest")
        self.end_headers()
        self.wfile.write(b"2\r\nok\r\n0\r\nSet-Cookie: a=b\r\nDigest: kept\r\nServer-Timing: kept\r\n"
                         b"Access-Control-Allow-Origin: *\r\nFumehood-Port: 1\r\n\r\n")

    def events(self):
        self.answer(b"data: 1\n\n", 200, [("Content-Type", "text/event-stream; charset=utf-8"), ("X-Accel-Buffering", "yes")])

    def redirect(self):
        self.answer(b"", 307, [("Location", self.headers["X-To"])])

    def odd(self):
        self.wfile.write(b"HTTP/1.1 099 None\r\nContent-Length: 0\r\n\r\n")

    def lines(self):
        self.answer(b"ok", 200, [("Grpc-%d" % i, "") for i in range(int(self.headers["X-Lines"]))])

    def short(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        self.close_connection = True

    def big(self):
        n = int(self.headers["X-Bytes"])
        self.send_response(200)
        self.send_header("Content-Length", str(n))
        self.end_headers()
        piece = bytes(1 << 16)
        for _ in range(n // len(piece)):
            self.wfile.write(piece)

    def taken(self):
        """Reads a large body and answers with its length."""
        left = n = int(self.headers["Content-Length"])
        while left:
            left -= len(self.rfile.read(min(left, 1 << 16)))
        self.answer(str(n).encode())

    def echo(self):
        """Answers each chunk of the request with a chunk, before the next one comes."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while True:
            size = int(self.rfile.readline(), 16)
            piece = self.rfile.read(size + 2)
            self.wfile.write(b"%x\r\n" % size + piece)
            if not size:
                return

    def h2c(self):
        """Switches to HTTP/2, in which the client would send its next requests here."""
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
        self.close_connection = True

    def upgrade(self):
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSet-Cookie: a=b\r\n"
                         b"Sec-WebSocket-Accept: " + self.headers["Sec-WebSocket-Key"].encode() + b"\r\n\r\n")
        while piece := self.rfile.read1(1 << 16):
            self.wfile.write(piece)
        self.close_connection = True

    def handle_one(self):
        {"/hostile": self.hostile, "/redirect": self.redirect, "/odd": self.odd, "/short": self.short, "/big": self.big, "/taken": self.taken,
         "/echo": self.echo, "/ws": self.upgrade, "/h2c": self.h2c, "/trailers": self.trailers, "/events": self.events,
         "/lines": self.lines}.get(self.path, self.told)()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = do_PROPFIND = handle_one

    def log_message(self, *_):
        pass

def greet(listener):
    """Speaks first, and another protocol."""
    while True:
        c = listener.accept()[0]
        c.sendall(b"SSH-2.0-hostile\r\n")
        threading.Thread(target=c.recv, args=(1 << 16,), daemon=True).start()

threading.Thread(target=greet, args=(socket.create_server(("", 8022)),), daemon=True).start()
http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
