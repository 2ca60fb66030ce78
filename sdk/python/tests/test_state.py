"""Variables that travel between sandboxes, and between a sandbox and this program."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import json
import pathlib
import random
import re
import uuid
import zoneinfo
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from fumehood import FumehoodError, InvalidRequest, NotFound, Sandbox, TooLarge
from fumehood._state import document_of, value_of

if TYPE_CHECKING:
    from conftest import Server

pytestmark = pytest.mark.smoke

DEFINITIONS = """
import math, json as j, datetime
from math import sqrt
from collections import OrderedDict

RATE = 0.25

def taxed(amount, rate=RATE):
    "With tax."
    return amount * (1 + rate)

class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y
    def norm(self):
        return sqrt(self.x ** 2 + self.y ** 2)

p = Point(3, 4)
loop = [1]
loop.append(loop)
shared = {"a": loop, "p": p}
gen = (i for i in range(3))
handle = open("/dev/null")
square = lambda x: x * x
"""

CHECK = """
assert loop[1] is loop and shared["a"] is loop and shared["p"] is p
assert p.norm() == 5.0 and taxed(100) == 125.0 and taxed.__doc__ == "With tax." and j.dumps(1) == "1"
import inspect
inspect.getsource(taxed).count("def")
"""


@pytest.fixture
def other(server: Server) -> Sandbox:
    with Sandbox(server=server.address) as sandbox:
        yield sandbox


def test_to_another_sandbox(sandbox: Sandbox, other: Sandbox) -> None:
    sandbox.run(DEFINITIONS)
    document = sandbox.export()
    absent = {entry["name"]: entry["reason"] for entry in document["missing"]}
    assert absent.keys() == {"gen", "handle", "square"}
    assert "generator" in absent["gen"]
    assert "lambda" in absent["square"]
    assert other.load(document) == []
    answer = other.run(CHECK)
    assert (answer.text, answer.stderr) == ("1", "")
    again = other.export()
    assert again["variables"].keys() == document["variables"].keys() | {"inspect"}


VALUES = {
    "none": None,
    "numbers": [1, -(2**200), 1.5, float("inf"), 2 + 3j, True],
    "text": ["\u00fc", "\ud800", "a\x00b"],
    "binary": [b"\x00\xff", bytearray(b"x")],
    "sets": [{1, 2}, frozenset("a"), (1, (2,)), range(1, 9, 2)],
    "keys": {1: "a", (2, 3): "b", "$int": "c"},
    "dates": [
        dt.date(2024, 2, 29),
        dt.datetime(2024, 1, 2, 3, 4, 5, 6),
        dt.time(1, 2),
        dt.timedelta(days=-1, seconds=3),
    ],
    "zones": [
        dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc),
        dt.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    ],
    "exact": [decimal.Decimal("0.10"), fractions.Fraction(1, 3), uuid.UUID(int=7), pathlib.Path("/a/b")],
}


def test_values(sandbox: Sandbox) -> None:
    sandbox.set(**VALUES)
    for name, value in VALUES.items():
        assert sandbox.get(name) == value, name
        assert sandbox.run(f"repr({name})").result.data["text/plain"] == repr(repr(value)), name
    cycle: list[object] = []
    cycle.append(cycle)
    sandbox.set(cycle=cycle)
    assert sandbox.run("cycle[0] is cycle").text == "True"
    got = sandbox.get("cycle")
    assert got[0] is got


def test_refusals(sandbox: Sandbox) -> None:
    with pytest.raises(NotFound):
        sandbox.get("nobody")
    sandbox.run(
        "big = bytes(40 << 20); deep = []\nfor i in range(500): deep = [deep]\nt = []; t = (t,); t[0].append(t)"
    )
    for name, reason in {"big": "too large", "deep": "nested", "t": "itself"}.items():
        with pytest.raises(InvalidRequest, match=reason):
            sandbox.get(name)
    with pytest.raises(InvalidRequest):
        sandbox.set(x=object())
    with pytest.raises(InvalidRequest):
        sandbox.load({"version": 2})
    sandbox.run("many = [bytes(3 << 20) for _ in range(20)]; one, two = many[:2]")
    document = sandbox.export("many", "one", "two")
    assert document["variables"].keys() == {"one", "two"}
    assert [entry["name"] for entry in document["missing"]] == ["many"]
    bad = {"version": 1, "variables": {"a": {"$ref": 9}, "b": {"$nothing": 1}, "c": {"$decimal": []}, "d": 1}}
    absent = {entry["name"] for entry in sandbox.load({**bad, "language": "python"})}
    assert absent == {"a", "b", "c"}
    assert sandbox.run("d").text == "1"


def test_gigabyte(sandbox: Sandbox) -> None:
    """A value of 1 GB is refused before it is copied, and a document of too many bytes by the server."""
    sandbox.run("huge = bytes(1 << 30)\nsmall = 1")
    context = sandbox.context("js", language="javascript")
    context.run("const huge = new Uint8Array(2 ** 30), small = 1")
    for one in sandbox, context:
        with pytest.raises(InvalidRequest, match="huge cannot be carried: it is too large"):
            one.get("huge")
        document = one.export()
        assert (document["variables"], [m["name"] for m in document["missing"]]) == ({"small": 1}, ["huge"])
        with pytest.raises(TooLarge):
            one.load({**document, "variables": {"x": "x" * (21 << 20)}})
        assert one.get("small") == 1


def mutations(document: dict[str, object], seed: int) -> Iterator[dict[str, object]]:
    """Give hostile variants of a document: values in the place of others, repeated, cut, and of other types."""
    chance = random.Random(seed)
    texts = [json.dumps(value) for value in ([], {}, None, "", -1, 2**70, 1e308, {"$ref": 0}, {"$ref": -1}, ["x"])]
    texts += ['{"$fraction": "1e999999999"}', '"1e9999999"', '{"$dict": [[[], 1]]}']
    texts.append('{"$tuple": ' * 50 + "1" + "}" * 50)
    whole = json.dumps(document["variables"])
    parts = re.findall(r'"(?:[^"\\]|\\.)*"|[-\d.e+]+|[^"\d]+', whole)
    for _ in range(4000):
        words = list(parts)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(words))
            words[place] = chance.choice([*texts, chance.choice(parts), words[place][: len(words[place]) // 2]])
        with suppress(ValueError):
            yield {**document, "variables": json.loads("".join(words))}


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_hostile_documents(sandbox: Sandbox, language: str) -> None:
    """Any document is a value or a FumehoodError here, and leaves the context that loads it alive."""
    context = sandbox.context("c", language=language)
    if language == "python":
        context.run(DEFINITIONS + "import decimal, fractions\nx = [decimal.Decimal(1), fractions.Fraction(1, 3), 1j]")
        context.run("import datetime as d\ny = [d.datetime(2024, 1, 2), d.timedelta(1), (1, {2}), b'x', range(3)]")
    else:
        context.run("let x = {m: new Map([[1, new Set([2n])]]), d: new Date(0), t: Float64Array.of(1), r: /a/g}")
        context.run("class A { constructor() { this.x = x } } let a = new A(), f = () => a, e = new RangeError('far')")
    document, loaded = context.export(), 0
    for n, hostile in enumerate(mutations(document, seed=36)):
        for name in hostile["variables"] if isinstance(hostile["variables"], dict) else ():
            with suppress(FumehoodError):
                value_of(hostile, name)
        if n % 10 == 0:
            with suppress(FumehoodError):
                loaded += len(context.load(hostile)) >= 0
    assert loaded > 5
    assert context.run("1 + 1").text == "2"


def test_nothing_is_executed_here(sandbox: Sandbox) -> None:
    sandbox.run("def f():\n    return 1\nimport os\nclass C: pass\nc = C()")
    assert sandbox.get("f").text == "def f():\n    return 1\n"
    assert sandbox.get("os").text == "import os"
    with pytest.raises(InvalidRequest, match="object"):
        sandbox.get("c")


def test_arrays_and_frames() -> None:
    pd, np = pytest.importorskip("pandas"), pytest.importorskip("numpy")
    array = np.arange(6.0).reshape(2, 3)
    berlin = pd.to_datetime(["2024-01-01", "2024-07-01"]).tz_localize("Europe/Berlin")
    columns = {
        "i": [1, 2],
        "s": ["x", None],
        "t": pd.to_datetime(["2024-01-01", None]),
        "c": pd.Categorical(["u", "v"]),
        "n": pd.array([1, None], dtype="Int64"),
        "z": berlin,
    }
    frame = pd.DataFrame(columns, index=pd.Index([5, 6], name="k"))
    levels = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["p", "q"])
    many = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"], index=levels)
    document = json.loads(document_of({"x": [array, array, np.float32(1.5)], "f": frame, "m": many, "s": frame["t"]}))
    document["missing"] = []
    first, second, scalar = value_of(document, "x")
    assert first is second
    assert (first == array).all()
    assert scalar.dtype == np.float32
    pd.testing.assert_frame_equal(value_of(document, "f"), frame)
    pd.testing.assert_frame_equal(value_of(document, "m"), many)
    with pytest.raises(InvalidRequest, match="cannot be carried"):
        document_of({"x": np.array([object()])})


@pytest.mark.smoke
def test_javascript(sandbox):
    """Variables of JavaScript: plain values here, and set from here."""
    context = sandbox.context("js", language="javascript")
    context.run(
        "let o = {u: undefined, n: 2n ** 70n, m: new Map([[1, 'a']]), s: new Set([2]), d: new Date(0),"
        " $: [o2 = {}, o2], t: Float64Array.of(1.5), b: Buffer.from('hi'), r: /a/g, e: new RangeError('far')}"
    )
    value = context.get("o")
    assert value.pop("$") == [{}, {}]
    assert value.pop("d").timestamp() == 0
    assert value == {
        "u": None, "n": 2**70, "m": {1: "a"}, "s": {2}, "t": [1.5], "b": bytearray(b"hi"), "r": "/a/g",
        "e": "RangeError: far",
    }  # fmt: skip
    context.set(x=[1, (2, 3), {4}, b"hi", 2**60, {"k": None}])
    text = "[x[1].length, x[2].has(4), x[3] instanceof Uint8Array, x[4] === 2n ** 60n, x[5].k === null].join()"
    assert context.run(text).text == "'2,true,true,true,true'"
