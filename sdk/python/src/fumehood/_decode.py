"""Models of JSON objects, and how they are decoded."""

from __future__ import annotations

import base64
import re
import sys
import types
import typing
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import dataclass_transform

    Decoder = Callable[[Any], Any]
else:

    def dataclass_transform(**_: Any) -> Any:
        """Return a decorator for type checkers, which does nothing here."""
        return lambda cls: cls


T = TypeVar("T")
M = TypeVar("M", bound="Model")


class DecodeError(ValueError):
    """An answer does not have the form of its model: the server is older, or is not Fumehood."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Model:
    """A JSON object of the API. Its fields are read-only. Unlike a dataclass, it costs nothing to define."""

    def __init__(self, **values: Any) -> None:
        for name in self.__annotations__:
            if name not in values and not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} needs {name}")
        unknown = values.keys() - self.__annotations__.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} is read-only")

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dict__)
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__annotations__)

    __hash__ = None  # type: ignore[assignment]


def decode(model: type[M], value: Any) -> M:
    """Return a JSON object as a model. Unknown fields are ignored: a newer server may have added them.

    It raises DecodeError if a field is missing or has another type.
    """
    kind: Any = model
    required, fields = plan(kind)
    values = expect(dict, value)
    out: dict[str, Any] = {}
    for name, item in values.items():
        read = fields.get(name)
        if read:
            try:
                out[name] = read(item)
            except ValueError as e:
                raise DecodeError(f"{name}: {e}") from None
    missing = required - out.keys()
    if missing:
        raise DecodeError(f"{', '.join(sorted(missing))} is missing")
    self = model.__new__(model)
    self.__dict__.update(out)
    return self


@cache
def plan(model: type[Model]) -> tuple[frozenset[str], dict[str, Decoder]]:
    """Return the required fields of a model, and the function that decodes each field."""
    names = vars(sys.modules[model.__module__])
    fields = {name: decoder(eval(text, names)) for name, text in model.__annotations__.items()}  # noqa: S307 - our own
    return frozenset(name for name in fields if not hasattr(model, name)), fields


def decoder(kind: Any) -> Decoder:
    """Return the function that decodes values of a type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        inner = decoder(arguments[0])
        return lambda value: None if value is None else inner(value)
    if origin is list:
        inner = decoder(arguments[0])
        return lambda value: [inner(item) for item in expect(list, value)]
    if origin is dict:
        inner = decoder(arguments[1])
        return lambda value: {key: inner(item) for key, item in expect(dict, value).items()}
    if kind is Any:
        return lambda value: value
    if issubclass(kind, Model):
        return lambda value: decode(kind, value)
    if kind is datetime:
        return lambda value: parse_time(expect(str, value))
    if kind is bytes:
        return lambda value: base64.b64decode(expect(str, value))
    if kind is float:
        return lambda value: value if isinstance(value, int) else expect(float, value)
    return lambda value: expect(kind, value)


def expect(kind: type[T], value: Any) -> T:
    """Return a value of a type, or raise DecodeError."""
    if not isinstance(value, kind):
        raise DecodeError(f"{type(value).__name__} in place of {kind.__name__}")
    return value


TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z")


def parse_time(text: str) -> datetime:
    """Return a time of the server: RFC 3339 in UTC, with up to nine digits of a second."""
    found = TIME.fullmatch(text)
    if not found:
        raise DecodeError(f"{text[:40]!r} is not a time")
    whole = datetime.fromisoformat(found[1]).replace(tzinfo=timezone.utc)
    return whole + timedelta(seconds=float(found[2] or 0))
