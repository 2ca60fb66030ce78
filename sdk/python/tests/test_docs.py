"""Runs the programs of the pages, as a reader would paste them, and the examples."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable

import pytest

import test_langchain
import test_smolagents
from conftest import REPOSITORY
from test_langchain import call

MODELS: dict[str, Callable[[], object]] = {
    "FumehoodExecutor": lambda: test_smolagents.Script("final_answer(area(3, 4))"),
    "run_code_tool": lambda: test_langchain.script(call("run_code", code="6 * 7")),
    "FumehoodSandbox": lambda: test_langchain.script(call("execute", command="wc -l < data.csv")),
}


def programs() -> list[object]:
    found = []
    for page in ("python", "calls", "state", "smolagents", "langchain"):
        text = (REPOSITORY / "docs" / f"{page}.md").read_text()
        for number, block in enumerate(re.findall(r"^```py\n(.*?)^```", text, re.DOTALL | re.MULTILINE)):
            found.append(pytest.param(block, id=f"{page}-{number}"))
    return found


@pytest.mark.parametrize("program", programs())
def test_pages(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FUMEHOOD_SERVER", raising=False)
    models = [model() for user, model in MODELS.items() if user in program]
    page = tmp_path / "page.py"  # inspect reads the source of tools
    page.write_text(program)
    runpy.run_path(str(page), {"model": models[0] if models else None})


EXAMPLES = dict.fromkeys(["python_client", "calls", "state", "smolagents_agent", "langchain_tool", "deep_agent"], "42")
EXAMPLES["playground"] = "['5', '4', '3']"


@pytest.mark.parametrize(("name", "shown"), EXAMPLES.items())
def test_examples(name, shown):
    environment = {k: v for k, v in os.environ.items() if k != "FUMEHOOD_SERVER"}
    program = [sys.executable, REPOSITORY / "examples" / f"{name}.py"]
    ended = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert shown in ended.stdout
