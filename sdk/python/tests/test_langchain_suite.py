"""The suite of langchain-tests for the sandboxes of Deep Agents, unchanged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from langchain_tests.integration_tests import SandboxIntegrationTests

from fumehood.deepagents import FumehoodSandbox


class TestSandbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self, server) -> Iterator[FumehoodSandbox]:
        with FumehoodSandbox(server=server.address, env={"PATH": "/workspace/.bin:/usr/bin:/bin"}) as sandbox:
            sandbox.execute("mkdir .bin && ln -s $(command -v python3) .bin/python")  # the suite calls it python
            yield sandbox
