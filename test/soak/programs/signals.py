# Signals, timers, a pseudo-terminal, limits, and clocks, as test frameworks use them.
import os, pty, resource, signal, sys, time

n = int(sys.argv[1])
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append("alarm"))
signal.signal(signal.SIGUSR1, lambda *_: seen.append("user"))
signal.setitimer(signal.ITIMER_REAL, 0.02)
os.kill(os.getpid(), signal.SIGUSR1)
began = time.monotonic()
while len(seen) < 2 and time.monotonic() - began < 20:
    time.sleep(0.005)
print(sorted(seen))
pid, fd = pty.fork()
if pid == 0:
    os.execvp("sh", ["sh", "-c", "test -t 0 && echo a terminal; exit " + str(n)])
out = b""
try:
    while chunk := os.read(fd, 1000):
        out += chunk
except OSError:
    pass
print(out.strip().decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
resource.setrlimit(resource.RLIMIT_NOFILE, (64 + n, 64 + n))
print(resource.getrlimit(resource.RLIMIT_NOFILE))
