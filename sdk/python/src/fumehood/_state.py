"""Variables of a context as values of this program. No I/O. Nothing is unpickled or executed."""

from __future__ import annotations

import json
from typing import Any

from fumehood._errors import FumehoodError, InvalidRequest, NotFound
from fumehood._models._codec import Decoder, Encoder, Refused, Source

VERSION = 1


def value_of(document: dict[str, Any], name: str) -> Any:
    """Return the value of a variable in a document. A function or a class is a Source."""
    try:
        for absent in document["missing"]:
            if absent["name"] == name:
                error = InvalidRequest if absent["type"] else NotFound
                raise error(f"the variable {name} cannot be carried: {absent['reason']}")
        decoder = Decoder({"source": source, "module": module})
        return decoder.decode(document["variables"][name])
    except FumehoodError:
        raise
    except Exception as e:  # the document comes from the sandbox
        raise InvalidRequest(f"the variable {name} cannot be decoded here: {type(e).__name__}: {e}") from e


def source(_: Decoder, parts: dict[str, Any], __: int) -> Source:
    """Return a function or a class as its text."""
    return Source(str(parts["name"]), str(parts.get("text") or f"from {parts['from']} import {parts['name']}"))


def module(_: Decoder, name: str, __: int) -> Source:
    """Return a module as the statement that imports it."""
    return Source(str(name), f"import {name}")


def document_of(values: dict[str, Any]) -> bytes:
    """Return the document of values by name. It raises InvalidRequest for a value that cannot be carried."""
    encoder, variables, first = Encoder(), {}, {}
    for name, value in values.items():
        first[name] = len(encoder.alive)
        try:
            variables[name] = encoder.encode(value)
        except Refused as e:
            raise InvalidRequest(f"the value of {name}: {e}") from None
    whole = {"version": VERSION, "language": "python", "variables": variables, "first": first}
    return json.dumps(whole, ensure_ascii=False).encode()
