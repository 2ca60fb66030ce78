"""Looks for files of the host that a stranger must not see."""

import glob
import os

WANTED = [
    "/etc/shadow", "/root/.ssh/id_ed25519", "/root/.bash_history", "/var/lib/dpkg/status",
    "/proc/1/environ", "/proc/kcore", "/sys/kernel",
]

found = 0
for path in WANTED + glob.glob("/home/*/.ssh/*") + glob.glob("/run/*.sock") + glob.glob("/proc/[0-9]*/root/etc/shadow"):
    try:
        if os.path.isdir(path):
            content = " ".join(os.listdir(path))
        else:
            with open(path, errors="replace") as f:
                content = f.read(200)
        if content.strip():
            found += 1
            print(f"GOT     {path}: {content[:60]!r}")
        else:
            print(f"empty   {path}")
    except OSError as error:
        print(f"denied  {path}: {error.strerror}")

try:
    with open("/usr/bin/python3", "ab"):
        found += 1
        print("GOT     /usr/bin/python3 is open for writing")
except OSError as error:
    print(f"denied  writing to /usr/bin/python3: {error.strerror}")

print("visible processes:", sorted(int(p) for p in os.listdir("/proc") if p.isdigit()))
print("users with a home here:", os.listdir("/home"))
raise SystemExit(f"{found} secrets were found" if found else 0)
