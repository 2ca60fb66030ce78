"""A program of E2B's SDK on a Fumehood server: pip install e2b-code-interpreter, and set the variables of docs/e2b.md.

The model is a script, so that the example needs no key of one.
"""

from e2b_code_interpreter import Sandbox

# What a model wrote, step by step.
STEPS = [
    "import csv\nrows = list(csv.DictReader(open('sales.csv')))",
    "rows[2]",
    "sum(int(row['total']) for row in rows)",
]

with Sandbox.create(timeout=60) as sandbox:
    sandbox.files.write("sales.csv", "city,total\nOslo,20\nBergen,22\n")
    for step in STEPS:
        done = sandbox.run_code(step)
        print(f"{done.error.name}: {done.error.value}" if done.error else done.text)  # at last 42
    print(sandbox.commands.run("wc -l < sales.csv").stdout.strip(), "lines")
    sandbox.kill()
