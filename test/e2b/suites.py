"""Runs one of E2B's own suites, in its folder, and compares the tests that fail with the list of test/e2b/suites.

suites.py LIST PROGRAM...   PROGRAM is pytest or vitest, with its flags

The list has the names of tests, below a line "# reason" for each group. A test that fails and is not in the list runs a
second time, and fails the suite if it fails again. A test of the list that passes is reported alone: some need the
internet.
"""

import pathlib
import subprocess
import sys
import xml.etree.ElementTree as xml

REPORT = pathlib.Path("report.xml").absolute()
ATTEMPTS = 2  # of a program that ends before all tests ran


def run(program, tests=()):
    """Runs the suite, or these tests of it, and returns the outcome of each test by its name."""
    if "vitest" in program[0]:
        flags = ["--reporter=default", "--reporter=junit", f"--outputFile.junit={REPORT}"]
        flags += sorted({name.split("::")[0] for name in tests})
    else:
        flags = ["-q", "--tb=short", f"--junitxml={REPORT}", "-o", "junit_family=xunit1"]
        flags += sorted({name.split("[")[0] for name in tests})
    for _ in range(ATTEMPTS):
        REPORT.unlink(missing_ok=True)
        ended = subprocess.run([*program, *flags], check=False).returncode
        if ended in (0, 1) and REPORT.exists():
            break
        print(f"{program[0]} ended with {ended} before all tests ran")
    else:
        sys.exit(1)
    outcomes = {}
    for case in xml.parse(REPORT).iter("testcase"):
        name = f"{case.get('file') or case.get('classname')}::{case.get('name')}"
        failed = case.find("failure") is not None or case.find("error") is not None
        skipped = case.find("skipped") is not None
        outcomes[name] = "failed" if failed else "skipped" if skipped else outcomes.get(name, "passed")
    return outcomes


def expected(path):
    lines = pathlib.Path(path).read_text().splitlines()
    return {line for line in lines if line and not line.startswith("# ")}


def main(path, *program):
    known = expected(path)
    outcomes = run(program)
    failed = {name for name, outcome in outcomes.items() if outcome == "failed"}
    if again := failed - known:
        print(f"{len(again)} tests fail that are not in {path}; they run again")
        second = run(program, again)
        failed -= {name for name in again if second.get(name) == "passed"}
    for name in sorted(known - failed):
        print(f"no failure, but in {path}: {name}: {outcomes.get(name, 'no such test')}")
    for name in sorted(failed - known):
        print(f"FAILED, and not in {path}: {name}")
    passed = sum(outcome != "skipped" for outcome in outcomes.values()) - len(failed)
    unexpected = len(failed - known)
    print(f"{pathlib.Path(path).stem}: {passed} passed, {len(failed)} failed, of which {unexpected} unexpected")
    return bool(failed - known) or not passed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
