# Values as tagged JSON, without pickle. docs/state.md describes the format. The client for Python has a copy, which
# tools/models.py makes.
import base64
import math

LIMIT = 16 << 20  # bytes of a document, or a little more
DEPTH = 40  # levels of containers
DIGITS = 9000  # of the text of a fraction: Python's conversion takes time that grows with their square
EXACT = 1 << 53  # integers up to it are numbers of JSON
SIMPLE = {"decimal": "Decimal", "fractions": "Fraction", "uuid": "UUID"}  # str(value) is the argument of the type
DATES = {"date", "datetime", "time"}  # of module datetime, as in ISO 8601
ARRAYS = {"Int8Array": "b", "Int16Array": "h", "Uint16Array": "H", "Int32Array": "i", "Uint32Array": "I",
          "Float32Array": "f", "Float64Array": "d", "BigInt64Array": "q", "BigUint64Array": "Q"}  # codes of struct
PATHS = {"PosixPath", "PurePosixPath"}


class Refused(Exception):
    """Why a value cannot be carried."""


class Source:
    """A function or a class, as source text. Nothing executes it outside of a sandbox."""

    def __init__(self, name, text):
        self.name, self.text = name, text

    def __repr__(self):
        return "<source of %s>" % self.name


def tagged(tag, value):
    return {"$" + tag: value}


def text_of_bytes(data):
    return base64.b64encode(data).decode()


class Encoder:
    """Encodes values. Those of mutable types are numbered in order; a second occurrence is a reference."""

    def __init__(self, limit=LIMIT, special=None):
        self.limit, self.special = limit, special
        self.used, self.known, self.alive, self.open = 0, {}, [], set()

    def encode(self, value, depth=0):
        name = type(value).__name__
        module = type(value).__module__
        self.count(8)
        if depth > DEPTH:
            raise Refused("it is nested more than %d deep" % DEPTH)
        if value is None or value is True or value is False:
            return value
        if module == "builtins":
            method = getattr(self, "encode_" + name, None)
            if method:
                return method(value, depth + 1)
        elif module in SIMPLE and name == SIMPLE[module]:
            return tagged(name.lower(), self.text(str(value)))
        elif module == "datetime" and name in DATES:
            zone = getattr(value, "tzinfo", None)
            if zone is not None and type(zone).__name__ != "timezone":
                return tagged("zoned", [value.replace(tzinfo=None).isoformat(), self.text(str(zone)), value.fold])
            return tagged(name, value.isoformat())
        elif module == "datetime" and name == "timedelta":
            return tagged(name, [value.days, value.seconds, value.microseconds])
        elif module.partition(".")[0] == "pathlib" and name in PATHS:
            return tagged("path", self.text(str(value)))
        elif module == "numpy":
            return self.encode_numpy(value)
        elif module.partition(".")[0] == "pandas":
            return self.encode_pandas(value, name, depth + 1)
        if isinstance(value, Source):
            return tagged("source", {"name": value.name, "text": self.text(value.text)})
        if self.special:
            found = self.special(self, value, depth + 1)
            if found is not None:
                return found
        raise Refused("a value of type %s cannot be carried" % type_name(value))

    def count(self, size):
        self.used += size
        if self.used > self.limit:
            raise Refused("it is too large: a document has at most %d bytes" % self.limit)

    def text(self, text):
        self.count(len(text))
        return text

    def once(self, value, tag, encode):
        """Encodes a value of a mutable type, or a reference to it."""
        if id(value) in self.known:
            return tagged("ref", self.known[id(value)])
        self.known[id(value)] = len(self.alive)
        self.alive.append(value)
        found = encode()
        return tagged(tag, found) if tag else found

    def inside(self, value, encode):
        """Encodes a value of an immutable type, which must not contain itself."""
        if id(value) in self.open:
            raise Refused("it contains itself through a %s" % type(value).__name__)
        self.open.add(id(value))
        try:
            return encode()
        finally:
            self.open.discard(id(value))

    def all(self, values, depth):
        return [self.encode(value, depth) for value in values]

    def encode_int(self, value, depth):
        if -EXACT < value < EXACT:
            return value
        self.count(value.bit_length() // 3)
        return tagged("int", hex(value))

    def encode_float(self, value, depth):
        return value if math.isfinite(value) else tagged("float", repr(value))

    def encode_complex(self, value, depth):
        return tagged("complex", [repr(value.real), repr(value.imag)])

    def encode_str(self, value, depth):
        self.count(len(value))
        try:
            value.encode()
        except UnicodeEncodeError:
            return tagged("str", text_of_bytes(value.encode("utf-8", "surrogatepass")))
        return value

    def encode_bytes(self, value, depth):
        self.count(len(value) * 4 // 3)
        return tagged("bytes", text_of_bytes(value))

    def encode_bytearray(self, value, depth):
        self.count(len(value) * 4 // 3)
        return self.once(value, "bytearray", lambda: text_of_bytes(value))

    def encode_range(self, value, depth):
        return tagged("range", self.all([value.start, value.stop, value.step], depth))

    def encode_tuple(self, value, depth):
        return tagged("tuple", self.inside(value, lambda: self.all(value, depth)))

    def encode_frozenset(self, value, depth):
        return tagged("frozenset", self.inside(value, lambda: self.all(value, depth)))

    def encode_set(self, value, depth):
        return self.once(value, "set", lambda: self.all(value, depth))

    def encode_list(self, value, depth):
        return self.once(value, "", lambda: self.all(value, depth))

    def encode_dict(self, value, depth):
        def encode():
            if all(type(key) is str and key[:1] != "$" for key in value):
                return {self.encode(key, depth): self.encode(item, depth) for key, item in value.items()}
            return tagged("dict", [[self.encode(k, depth), self.encode(v, depth)] for k, v in value.items()])

        try:
            return self.once(value, "", encode)
        except TypeError:  # a key with lone surrogates
            raise Refused("a key of a dict is not valid text") from None

    def encode_numpy(self, value):
        import io

        import numpy
        if not isinstance(value, (numpy.ndarray, numpy.generic)) or value.dtype.hasobject:
            raise Refused("a value of type %s cannot be carried" % type_name(value))

        def encode():
            self.count(value.nbytes * 4 // 3)
            file = io.BytesIO()
            numpy.save(file, value, allow_pickle=False)
            return text_of_bytes(file.getvalue())

        if isinstance(value, numpy.generic):
            return tagged("scalar", encode())
        return self.once(value, "array", encode)

    def encode_pandas(self, value, name, depth):
        import pandas
        if name == "Timestamp" and value is not pandas.NaT:
            return tagged("timestamp", value.isoformat())
        if name == "NaTType":
            return tagged("nat", None)
        if name == "DataFrame":
            return self.once(value, "frame", lambda: {
                "index": self.column(value.index, depth), "names": self.encode(list(value.columns), depth),
                "columns": [self.column(value.iloc[:, n], depth) for n in range(value.shape[1])]})
        if name == "Series":
            return self.once(value, "series", lambda: {
                "index": self.column(value.index, depth), "values": self.column(value, depth),
                "name": self.encode(value.name, depth)})
        if isinstance(value, pandas.Index):
            return tagged("index", self.column(value, depth))
        raise Refused("a value of type %s cannot be carried" % type_name(value))

    def column(self, values, depth):
        """Encodes the values of a column or an index: numbers as an array, others one by one with their type."""
        import numpy
        if getattr(values, "nlevels", 1) > 1:
            return {"levels": self.encode(list(values.names), depth), "values": self.all(values.tolist(), depth)}
        out = {"dtype": str(values.dtype), "name": self.encode(getattr(values, "name", None), depth)}
        if isinstance(values.dtype, numpy.dtype) and values.dtype.kind in "biufcmM":
            out["array"] = self.encode_numpy(values.to_numpy().copy())["$array"]
        else:
            out["values"] = self.all([None if missing(item) else item for item in values.tolist()], depth)
        return out


def missing(value):
    return value is None or type(value).__name__ in ("NAType", "NaTType") or type(value) is float and value != value


def type_name(value):
    kind = type(value)
    return kind.__name__ if kind.__module__ in ("builtins", "__main__") else kind.__module__ + "." + kind.__name__


class Decoder:
    """Decodes values. special decodes tags that mean code, by name; without it they are refused."""

    def __init__(self, special=None):
        self.special, self.made, self.next = special, {}, 0

    def decode(self, value, depth=0):
        if depth > 2 * DEPTH:
            raise Refused("it is nested too deeply")
        if isinstance(value, list):
            return self.fill([], lambda out: out.extend(self.all(value, depth)))
        if not isinstance(value, dict):
            return value
        tag = next(iter(value), "")
        if len(value) != 1 or tag[:1] != "$":
            return self.fill({}, lambda out: out.update(
                (key, self.decode(item, depth + 1)) for key, item in value.items()))
        method = getattr(self, "decode_" + tag[1:], None)
        if method:
            return method(value[tag], depth + 1)
        if self.special and tag[1:] in self.special:
            return self.special[tag[1:]](self, value[tag], depth + 1)
        raise Refused("the tag %r is unknown" % tag[:40])

    def all(self, values, depth):
        return [self.decode(value, depth + 1) for value in values]

    def fill(self, out, fill):
        """Numbers a value of a mutable type before its content is decoded, which may refer to it."""
        self.made[self.number()] = out
        fill(out)
        return out

    def later(self, make):
        """Numbers a value that exists only once its content is decoded."""
        number = self.number()
        self.made[number] = make()
        return self.made[number]

    def begin(self, number):
        """Continues with a variable whose first value of a mutable type has a number."""
        self.next = number

    def number(self):
        self.next += 1
        return self.next - 1

    def decode_ref(self, number, depth):
        if number not in self.made:
            raise Refused("it refers to a value that was not carried")
        return self.made[number]

    def decode_int(self, text, depth):
        return int(text, 16)

    def decode_float(self, text, depth):
        return float(text)

    def decode_complex(self, parts, depth):
        return complex(float(parts[0]), float(parts[1]))

    def decode_str(self, text, depth):
        return base64.b64decode(text).decode("utf-8", "surrogatepass")

    def decode_bytes(self, text, depth):
        return base64.b64decode(text)

    def decode_bytearray(self, text, depth):
        return self.fill(bytearray(), lambda out: out.extend(base64.b64decode(text)))

    # Values of JavaScript.

    def decode_undefined(self, nothing, depth):
        return None

    def decode_utf16(self, text, depth):
        return base64.b64decode(text).decode("utf-16-le", "surrogatepass")

    def decode_instant(self, text, depth):
        import datetime
        return self.later(lambda: datetime.datetime.fromisoformat(text))

    def decode_regexp(self, parts, depth):
        return self.later(lambda: "/%s/%s" % (self.decode(parts[0], depth), parts[1]))

    def decode_error(self, parts, depth):
        return self.later(lambda: "%s: %s" % tuple(self.all(parts, depth)))

    def decode_record(self, pairs, depth):
        return self.decode_dict(pairs, depth)

    def decode_typed(self, parts, depth):
        kind, data = ARRAYS.get(parts[0], "B"), base64.b64decode(parts[1])
        return self.later(lambda: bytearray(data) if kind == "B" else memoryview(data).cast(kind).tolist())

    def decode_range(self, parts, depth):
        return range(*(self.decode(part, depth) for part in parts))

    def decode_tuple(self, values, depth):
        return tuple(self.all(values, depth))

    def decode_frozenset(self, values, depth):
        return frozenset(self.all(values, depth))

    def decode_set(self, values, depth):
        return self.fill(set(), lambda out: out.update(self.all(values, depth)))

    def decode_dict(self, pairs, depth):
        return self.fill({}, lambda out: out.update((self.decode(k, depth), self.decode(v, depth)) for k, v in pairs))

    def decode_decimal(self, text, depth):
        import decimal
        return decimal.Decimal(text)

    def decode_fraction(self, text, depth):
        import fractions
        if len(text) > DIGITS or not set(text) <= set("-/0123456789"):  # Fraction computes an exponent
            raise Refused("this is not a fraction")
        return fractions.Fraction(text)

    def decode_uuid(self, text, depth):
        import uuid
        return uuid.UUID(text)

    def decode_path(self, text, depth):
        import pathlib
        return pathlib.Path(text)

    def decode_date(self, text, depth):
        import datetime
        return datetime.date.fromisoformat(text)

    def decode_datetime(self, text, depth):
        import datetime
        return datetime.datetime.fromisoformat(text)

    def decode_time(self, text, depth):
        import datetime
        return datetime.time.fromisoformat(text)

    def decode_zoned(self, parts, depth):
        import datetime
        import zoneinfo
        kind = datetime.datetime if "T" in parts[0] else datetime.time
        return kind.fromisoformat(parts[0]).replace(tzinfo=zoneinfo.ZoneInfo(parts[1]), fold=parts[2])

    def decode_timedelta(self, parts, depth):
        import datetime
        return datetime.timedelta(*parts)

    def load(self, text):
        import io

        import numpy
        return numpy.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)

    def decode_array(self, text, depth):
        return self.later(lambda: self.load(text))

    def decode_scalar(self, text, depth):
        return self.load(text)[()]

    def decode_timestamp(self, text, depth):
        import pandas
        return pandas.Timestamp(text)

    def decode_nat(self, nothing, depth):
        import pandas
        return pandas.NaT

    def decode_frame(self, parts, depth):
        import pandas

        def make():
            index, names = self.column(parts["index"], depth), self.decode(parts["names"], depth)
            columns = [self.column(column, depth, index) for column in parts["columns"]]
            frame = pandas.concat(columns, axis=1) if columns else pandas.DataFrame(index=index)
            frame.columns = names if columns else []
            return frame

        return self.later(make)

    def decode_series(self, parts, depth):
        def make():
            index = self.column(parts["index"], depth)
            series = self.column(parts["values"], depth, index)
            series.name = self.decode(parts["name"], depth)
            return series

        return self.later(make)

    def decode_index(self, parts, depth):
        return self.column(parts, depth)

    def column(self, parts, depth, index=None):
        """Decodes a column for an index, or an index."""
        import pandas
        if "levels" in parts:
            names = self.decode(parts["levels"], depth)
            return pandas.MultiIndex.from_tuples(self.all(parts["values"], depth), names=names)
        name = self.decode(parts["name"], depth)
        values = self.load(parts["array"]) if "array" in parts else self.all(parts["values"], depth)
        dtype = parts["dtype"] if "array" not in parts and parts["dtype"] != "object" else None
        if index is None:
            return pandas.Index(values, name=name, dtype=dtype)
        return pandas.Series(values, index=index, name=name, dtype=dtype)
