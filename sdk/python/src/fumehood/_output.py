"""Joins the pieces of an output stream."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from fumehood._models._runs import StreamInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from fumehood._models._runs import OutputPiece


class OutputText:
    """One output stream. A line reports the bytes that the server dropped between two pieces, as in a plain answer."""

    def __init__(self, callback: Callable[[str], object] | None) -> None:
        self._callback = callback
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # pieces may end within a character
        self._text: list[str] = []
        self._data = bytearray()
        self._end = 0  # offset of the next byte
        self._dropped = 0
        self._dropped_at: int | None = None

    def take(self, piece: OutputPiece) -> None:
        """Add the next piece, and pass its text to the callback."""
        data = piece.text.encode() if piece.base64 is None else piece.base64
        text = self._gap(piece.offset - self._end) if piece.offset > self._end else ""
        self._end = piece.offset + len(data)
        self._data += data
        text += self._decoder.decode(data)
        if text:
            self._text.append(text)
            if self._callback:
                self._callback(text)

    def _gap(self, size: int) -> str:
        self._dropped += size
        if self._dropped_at is None:
            self._dropped_at = len(self._data)
        newline = "\n" if self._data and not self._data.endswith(b"\n") else ""
        return f"{self._decoder.decode(b'', final=True)}{newline}[... {size} bytes dropped ...]\n"

    def render(self) -> tuple[str, StreamInfo]:
        """Return the output as text, and its details."""
        text = "".join(self._text) + self._decoder.decode(b"", final=True)
        exact = bytes(self._data) if "\ufffd" in text and not is_utf8(self._data) else None
        return text, StreamInfo(
            truncated=self._dropped > 0,
            dropped_bytes=self._dropped,
            base64=exact,
            dropped_at=self._dropped_at if exact else None,
        )


def is_utf8(data: bytes | bytearray) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
