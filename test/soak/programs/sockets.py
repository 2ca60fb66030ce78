# TCP, UDP and unix sockets on loopback, IPv6 too where there is any, and a socket pair across a fork.
import os, socket, sys, threading

n = sys.argv[1].encode()

def echo(server):
    conn, _ = server.accept()
    with conn:
        conn.sendall(conn.recv(100)[::-1])

def through(server, family, address):
    t = threading.Thread(target=echo, args=(server,))
    t.start()
    with socket.socket(family, socket.SOCK_STREAM) as c:
        c.settimeout(20)
        c.connect(address)
        c.sendall(b"ab" + n)
        print(c.recv(100))
    t.join()
    server.close()

tcp = socket.create_server(("127.0.0.1", 0))
through(tcp, socket.AF_INET, tcp.getsockname())
unix = socket.socket(socket.AF_UNIX)
unix.bind("s.sock")
unix.listen()
through(unix, socket.AF_UNIX, "s.sock")
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 0))
udp.sendto(b"datagram " + n, udp.getsockname())
print(udp.recv(100))
print(socket.gethostbyname("localhost"))
a, b = socket.socketpair()
if (pid := os.fork()) == 0:
    a.sendall(b"child")
    os._exit(int(n))
print(b.recv(100), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
