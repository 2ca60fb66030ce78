"""Properties of models that are not fields of the API."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container

    from fumehood._models._runs import Result

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")  # their data is base64, like in Jupyter


class FileViews:
    """The content of a file, whichever field has it."""

    content: str | None
    content_base64: bytes | None

    @property
    def data(self) -> bytes:
        """The content as bytes."""
        if self.content_base64 is not None:
            return self.content_base64
        return (self.content or "").encode()


class ResultViews:
    """A displayed value by its common media types. A property is None if the value lacks that type."""

    data: dict[str, str]

    @property
    def text(self) -> str | None:
        """The value as plain text: what repr returns."""
        return self.data.get("text/plain")

    @property
    def html(self) -> str | None:
        """The value as HTML. It is hostile: sanitize it before a browser renders it."""
        return self.data.get("text/html")

    @property
    def markdown(self) -> str | None:
        """The value as Markdown."""
        return self.data.get("text/markdown")

    @property
    def svg(self) -> str | None:
        """The value as an SVG picture."""
        return self.data.get("image/svg+xml")

    @property
    def png(self) -> bytes | None:
        """The value as a PNG picture."""
        return self._bytes("image/png")

    @property
    def jpeg(self) -> bytes | None:
        """The value as a JPEG picture."""
        return self._bytes("image/jpeg")

    @property
    def json(self) -> Any:
        """The value as JSON, decoded."""
        text = self.data.get("application/json")
        return None if text is None else json.loads(text)

    def _bytes(self, media: str) -> bytes | None:
        text = self.data.get(media)
        return None if text is None else base64.b64decode(text)

    def _repr_mimebundle_(
        self, include: Container[str] | None = None, exclude: Container[str] | None = None
    ) -> dict[str, Any]:
        """Return the value for a notebook: it shows the value as the sandbox did."""
        bundle: dict[str, Any] = {}
        for media, text in self.data.items():
            if (include is None or media in include) and (exclude is None or media not in exclude):
                bundle[media] = json.loads(text) if media.endswith("json") else text
        return bundle


class AnswerViews:
    """The value of the last expression, and short forms of the outcome."""

    results: list[Result]
    status: str
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """Whether the program succeeded."""
        return self.status == "succeeded"

    @property
    def result(self) -> Result | None:
        """The value of the last expression, else the last displayed value, or None."""
        shown = [r for r in self.results if r.main] or self.results
        return shown[-1] if shown else None

    @property
    def text(self) -> str | None:
        """The value of the last expression as plain text, or None."""
        return self.result.text if self.result else None

    @property
    def png(self) -> bytes | None:
        """The last picture of the run as PNG, or None."""
        return next((r.png for r in reversed(self.results) if r.png is not None), None)

    def _repr_mimebundle_(
        self, include: Container[str] | None = None, exclude: Container[str] | None = None
    ) -> dict[str, Any]:
        """Return the value for a notebook, or the output if there is none."""
        if self.result:
            return self.result._repr_mimebundle_(include, exclude)
        return {"text/plain": self.stdout + self.stderr}
