"""Tools: functions of this program that code in a sandbox can call. No I/O."""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union

MAX_ANSWER = 8 << 20  # bytes; the server's

JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


@dataclasses.dataclass(frozen=True)
class Tool:
    """A function that code in a sandbox can call, with JSON as arguments and as answer."""

    name: str
    """Its name in the sandbox."""

    function: Callable[..., Any]
    """Receives the arguments by name. In the asynchronous clients it may be asynchronous."""

    description: str = ""
    """Documentation for who writes the code."""

    schema: Mapping[str, Any] | None = None
    """JSON Schema of the arguments; by default that of the function's parameters."""

    def request(self) -> dict[str, Any]:
        """Return the tool as the API has it."""
        schema = schema_of(self.function) if self.schema is None else dict(self.schema)
        return {"name": self.name, "description": self.description, "schema": schema}


Tools = Sequence[Callable[..., Any] | Tool] | Mapping[str, Callable[..., Any]]


def tools_of(tools: Tools | None) -> dict[str, Tool]:
    """Return tools by name. A function has its own name and documentation."""
    pairs = tools.items() if isinstance(tools, Mapping) else ((None, tool) for tool in tools or ())
    found = [tool if isinstance(tool, Tool) else tool_of(tool, name) for name, tool in pairs]
    return {tool.name: tool for tool in found}


def tool_of(function: Callable[..., Any], name: str | None = None) -> Tool:
    """Return the tool of a function."""
    return Tool(name or function.__name__, function, inspect.getdoc(function) or "")


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the JSON Schema of the parameters of a function. Annotations that JSON does not have allow any value."""
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError):
        hints = {}
    properties, required, more = {}, [], False
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            more = True
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            properties[name] = type_schema(hints.get(name, Any))
            if parameter.default is parameter.empty:
                required.append(name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": more}


def type_schema(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of an annotation; {} for one that JSON does not have."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and kind in JSON_TYPES:
        return {"type": JSON_TYPES[kind]}
    if origin in (Union, types.UnionType):
        parts = [type_schema(part) for part in arguments]
        return {"anyOf": parts} if all(parts) else {}
    if origin is Literal:
        return {"enum": list(arguments)}
    if (origin or kind) in (list, tuple, set, Sequence):
        items = type_schema(arguments[0]) if (origin or kind) is not tuple and arguments else {}
        return {"type": "array", "items": items} if items else {"type": "array"}
    if (origin or kind) in (dict, Mapping):
        values = type_schema(arguments[1]) if arguments else {}
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    return {}


def arguments_of(function: Callable[..., Any], given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call: by position those that the function takes no other way."""
    rest = dict(given)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [], rest
    first = [rest.pop(p.name) for p in parameters if p.kind is p.POSITIONAL_ONLY and p.name in rest]
    return first, rest


def answer_of(value: Any) -> dict[str, Any]:
    """Return the answer with the value of a tool, or with the error that it is too large or not JSON."""
    try:
        text = json.dumps(value, default=plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as e:
        return failure_of(TypeError(f"the tool returned a value that is not JSON: {e}"))
    if len(text) > MAX_ANSWER:
        return too_large(len(text))
    return {"value": json.loads(text)}


def too_large(size: int) -> dict[str, Any]:
    """Return the answer of a tool whose value is too large."""
    return failure_of(ValueError(f"the tool returned {size} bytes; an answer has at most {MAX_ANSWER}"))


def failure_of(error: BaseException) -> dict[str, Any]:
    """Return the answer of a tool that raised an error."""
    return {"error": f"{type(error).__name__}: {error}"[:4000]}


def plain(value: Any) -> Any:
    """Return a value of a library as one that JSON has."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    for name in ("model_dump", "tolist"):  # pydantic, numpy
        if hasattr(value, name):
            return getattr(value, name)()
    raise TypeError(f"{type(value).__name__} is not")
