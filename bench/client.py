"""Measures the Python client: python client.py SERVER RUNS. Prints JSON of milliseconds by row.

The plain request is httpx's, on one connection, like those of the client. Both alternate, so that other load meets
both.
"""

import json
import subprocess
import sys
import time

import httpx

from fumehood import Sandbox

WARMUPS = 20
IMPORT = "import time; t = time.perf_counter(); from fumehood import Sandbox; print((time.perf_counter() - t) * 1e3)"

CALLS = """
import json, time
times = []
for n in range({}):
    began = time.perf_counter()
    echo(n)
    times.append((time.perf_counter() - began) * 1e3)
print(json.dumps(times))
"""


def timed(function):
    began = time.perf_counter()
    function()
    return (time.perf_counter() - began) * 1e3


def main(server, runs):
    rows = {"request": [], "run": [], "import": [], "call": []}
    with Sandbox(server=server) as s, httpx.Client(base_url=server, trust_env=False) as http:
        path = f"/v1/sandboxes/{s.id}/run"
        for _ in range(WARMUPS + runs):
            rows["request"].append(timed(lambda: http.post(path, json={"code": "1"}).json()))
            rows["run"].append(timed(lambda: s.run("1")))
        calls = s.run(CALLS.format(WARMUPS + runs), tools={"echo": lambda n: n}, call_limits={"calls": 10_000})
        rows["call"] = json.loads(calls.stdout)
    rows = {name: samples[WARMUPS:] for name, samples in rows.items()}
    for _ in range(max(runs // 50, 3)):
        rows["import"].append(float(subprocess.check_output([sys.executable, "-c", IMPORT])))
    print(json.dumps(rows))


main(sys.argv[1], int(sys.argv[2]))
