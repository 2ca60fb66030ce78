"""Summarise half a year of sales: totals, best sellers, trend, and which months stand out."""

import csv
import json
import statistics
from collections import defaultdict
from pathlib import Path


def read_sales(path):
    """Return the rows that can be used, and how many could not."""
    rows, skipped = [], 0
    with open(path, newline="") as f:
        for row in csv.DictReader(f):
            try:
                revenue = int(row["units"]) * float(row["unit_price"])
            except ValueError:
                skipped += 1
                continue
            rows.append((row["date"][:7], row["region"], row["product"], revenue))
    return rows, skipped


def totals(rows, column):
    sums = defaultdict(float)
    for row in rows:
        sums[row[column]] += row[3]
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def trend(values):
    """Slope of the least-squares line through the values, per step."""
    slope, _ = statistics.linear_regression(range(len(values)), values)
    return slope


def table(title, sums):
    whole = sum(sums.values())
    lines = [f"{title:<10} {'revenue':>12} {'share':>7}"]
    for name, value in sums.items():
        bar = "#" * round(30 * value / whole)
        lines.append(f"{name:<10} {value:>12,.2f} {value / whole:>6.1%}  {bar}")
    return "\n".join(lines)


rows, skipped = read_sales("sales.csv")
by_product, by_region = totals(rows, 2), totals(rows, 1)
by_month = dict(sorted(totals(rows, 0).items()))
months = list(by_month.values())
mean, spread = statistics.mean(months), statistics.stdev(months)
outliers = [m for m, value in by_month.items() if abs(value - mean) > 1.2 * spread]

print(table("product", by_product), end="\n\n")
print(table("region", by_region), end="\n\n")
unusual = ", ".join(outliers) or "none"
print(f"{len(rows)} rows, {skipped} skipped; trend {trend(months):+,.2f} a month; unusual: {unusual}")

summary = {
    "rows": len(rows),
    "skipped": skipped,
    "revenue": round(sum(months), 2),
    "by_product": {name: round(value, 2) for name, value in by_product.items()},
    "by_region": {name: round(value, 2) for name, value in by_region.items()},
    "by_month": {name: round(value, 2) for name, value in by_month.items()},
    "trend_per_month": round(trend(months), 2),
    "unusual_months": outliers,
}
Path("summary.json").write_text(json.dumps(summary, indent=2) + "\n")

report = ["# Sales, first half of the year", "", f"Revenue: **{summary['revenue']:,.2f}**", ""]
report += ["| month | revenue |", "|---|---:|"]
report += [f"| {month} | {value:,.2f} |" for month, value in by_month.items()]
Path("report.md").write_text("\n".join(report) + "\n")
