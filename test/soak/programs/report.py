# What a model writes most: read the data that came along, compute, print a table, leave files behind.
import csv, json, statistics, sys
from collections import defaultdict
from pathlib import Path

n = int(sys.argv[1])
scale = float(sys.stdin.read())
groups = defaultdict(list)
for row in csv.DictReader(open("data/in.csv")):
    groups[row["kind"]].append(float(row["value"]) * scale + n)
summary = {
    k: {"n": len(v), "mean": round(statistics.mean(v), 6), "sd": round(statistics.stdev(v), 6)}
    for k, v in sorted(groups.items())
}
for k, s in summary.items():
    print(f"{k:<8}{s['n']:>5}{s['mean']:>12.3f}{s['sd']:>12.3f}")
Path("out/deep").mkdir(parents=True)
Path("out/summary.json").write_text(json.dumps(summary, sort_keys=True))
Path("out/deep/bytes.bin").write_bytes(bytes(range(256)) * (n + 1))
