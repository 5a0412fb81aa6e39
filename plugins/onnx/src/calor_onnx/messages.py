"""The messages of an ONNX file, read without protobuf.

A message is a sequence of fields, each a number with a wire type, then a varint, 4 or 8 bytes, or a
length and that many bytes (protobuf.dev/programming-guides/encoding). The classes have the names
and fields of ``onnx.proto``, as far as a model's reader needs them, and their objects are read like
those of the package onnx. That package is large, so it is imported only for what it alone knows.

Requirements: elements of a tensor are not copied; its field ``raw_data`` is a view of the file.
Unknown fields are skipped. Damaged bytes raise :class:`Damaged`.

>>> node = NodeProto.parsed(b"\\x0a\\x01x\\x12\\x01y\\x22\\x04Relu")
>>> node.op_type, node.input, node.output, node.attribute
('Relu', ['x'], ['y'], ())
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

# Messages are nested at most this deep, as protobuf's own parsers allow.
_DEPTH = 100
_WORD = 1 << 64


class Damaged(ValueError):
    """The bytes are no fields of a message."""


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it."""
    number = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number % _WORD, at
        shift += 7
    raise Damaged("a number has more than ten bytes")


def _varints(data: memoryview) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return the numbers of packed varints."""
    found = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(found < 128)
    if not found.size:
        return np.empty(0, np.uint64)
    if not ends.size or ends[-1] != found.size - 1:
        raise Damaged("packed numbers are cut short")
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > 10:
        raise Damaged("a number has more than ten bytes")
    shifts = 7 * (np.arange(found.size) - np.repeat(starts, lengths))
    parts = (found & np.uint8(127)).astype(np.uint64) << shifts.astype(np.uint64)
    return np.bitwise_or.reduceat(parts, starts)


def _signed(number: int) -> int:
    return number - _WORD if number >> 63 else number


def _int32(number: int) -> int:
    """Return the lowest 32 bits as a signed number."""
    number &= 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


def _text(data: memoryview) -> str | bytes:
    """Return a text; bytes that are not UTF-8 stay bytes, as in protobuf."""
    held = bytes(data)
    try:
        return held.decode("utf-8")
    except UnicodeDecodeError:
        return held


_NUMBERS: dict[str, Any] = {"int": _signed, "uint": int, "int32": _int32}
_FIXED = {"float": ("<f", 5), "double": ("<d", 1)}
_PACKED: dict[str, Any] = {
    "int": np.int64,
    "uint": np.uint64,
    "int32": np.int32,
    "float": "<f4",
    "double": "<f8",
}
_EMPTY: dict[str, Any] = {"text": "", "bytes": b"", "view": b"", "float": 0.0, "double": 0.0}


@dataclass(frozen=True, slots=True)
class _Field:
    """A field: ``inner`` is the class of a message, ``array`` whether numbers become an array."""

    name: str
    kind: str
    several: bool
    array: bool
    inner: Any


class Message:
    """A message; a field that is not set has the default of its type.

    Attributes
    ----------
    FIELDS : str
        The fields: ``name=number:kind``. ``*`` before a kind marks a field with several values, and
        ``#`` one whose values become an array.
    ONE_OF : tuple of str
        Fields of which one is set: setting another one clears it.
    COPIED : bool
        Whether a message within another has bytes of its own, since it is read later.
    """

    FIELDS: ClassVar[str] = ""
    ONE_OF: ClassVar[tuple[str, ...]] = ()
    COPIED: ClassVar[bool] = False
    _known: ClassVar[dict[int, _Field]] = {}
    _named: ClassVar[dict[str, _Field]] = {}

    @classmethod
    def parsed(cls, data: bytes | memoryview, depth: int = 0) -> Self:
        """Return the message of some bytes.

        Parameters
        ----------
        data : bytes or memoryview
            The fields of the message.
        depth : int, default 0
            The number of messages around it.

        Returns
        -------
        Message
            The message.

        Raises
        ------
        Damaged
            If the bytes are no fields, or messages are nested too deep.
        """
        made = cls()
        made._read(memoryview(data), depth)
        return made

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """Return a message with some fields."""
        made = cls()
        made.__dict__.update(fields)
        return made

    def HasField(self, name: str) -> bool:
        """Return whether a field with one value is set."""
        return name in self.__dict__

    def WhichOneof(self, group: str) -> str | None:
        """Return the name of the field of the group that is set."""
        return next((name for name in self.ONE_OF if name in self.__dict__), None)

    def __getattr__(self, name: str) -> Any:
        field = self._named.get(name)
        if field is None:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        if field.several:
            return ()
        return _EMPTY.get(field.kind, 0) if field.inner is None else field.inner()

    def _read(self, data: memoryview, depth: int) -> None:
        """Set the fields of some bytes."""
        if depth > _DEPTH:
            raise Damaged(f"messages are nested more than {_DEPTH} deep")
        known = self._known
        fields = _fields(data)
        for number, wire, value in fields:
            field = known.get(number)
            if field is None:
                continue
            self._set(field, wire, value, depth)
            if field.several and field.inner is None:
                # Lists of numbers and texts have a field for each element, of which there may be
                # millions.
                run = fields.send(field)
                if len(run):
                    held = self.__dict__[field.name]
                    self.__dict__[field.name] = [*held, *run] if field.array else held + run

    def _set(self, field: _Field, wire: int, value: Any, depth: int) -> None:
        held, name = self.__dict__, field.name
        if field.inner is not None and wire == 2 and not field.several and name in held:
            # A message in two parts has the fields of both.
            held[name]._read(value, depth + 1)
            return
        read = _value(field, wire, value, depth)
        if read is None:
            return
        if not field.several:
            if name in self.ONE_OF:
                for other in self.ONE_OF:
                    held.pop(other, None)
            held[name] = read
        elif name not in held:
            held[name] = read
        else:
            held[name] = [*held[name], *read] if field.array else held[name] + read


def _fields(data: memoryview) -> Generator[Any, _Field | None, None]:
    """Iterate over fields: number, wire type, and the number or bytes.

    If a field is sent, the values of the next fields that have the same key are given next, as far
    as they are quickly read.
    """
    given: Any
    at, end = 0, len(data)
    try:
        while at < end:
            key, at = _varint(data, at)
            wire = key & 7
            length = 0
            if wire == 0:
                given, at = _varint(data, at)
            elif wire == 2:
                length, at = _varint(data, at)
            elif wire in (1, 5):
                length = 8 if wire == 1 else 4
            else:
                raise Damaged(f"a field has the wire type {wire}")
            if at + length > end or key < 8:
                raise Damaged("a field is cut short")
            if wire:
                given = data[at : at + length]
            at += length
            field = yield key >> 3, wire, given
            if field is not None:
                values: Any = []
                if at < end and data[at] == key:
                    values, at = _run(data, at, key, field)
                yield values
    except IndexError:
        raise Damaged("a field is cut short") from None


def _run(data: memoryview, at: int, key: int, field: _Field) -> tuple[list[Any], int]:
    """Return the values of fields with a key of one byte that follow each other, and their end."""
    wire, kind, values = key & 7, field.kind, list[Any]()
    if wire == 2 and kind in ("text", "bytes"):
        end = len(data)
        while at + 2 <= end and data[at] == key and data[at + 1] < 128:
            last = at + 2 + data[at + 1]
            if last > end:
                raise Damaged("a field is cut short")
            piece = data[at + 2 : last]
            values.append(_text(piece) if kind == "text" else bytes(piece))
            at = last
    elif kind in _FIXED and wire == _FIXED[kind][1]:
        size = 9 if wire == 1 else 5
        rows = np.frombuffer(data, np.uint8, (len(data) - at) // size * size, at).reshape(-1, size)
        others = np.flatnonzero(rows[:, 0] != key)
        count = int(others[0]) if others.size else len(rows)
        values = rows[:count, 1:].copy().view(_PACKED[kind]).reshape(-1).tolist()
        at += count * size
    elif kind in _NUMBERS and wire == 0:
        values, at = _varint_run(data, at, key, kind)
    return values, at


# Bytes in which consecutive numbers are looked for at once.
_PART = 1 << 20


def _varint_run(data: memoryview, at: int, key: int, kind: str) -> tuple[list[Any], int]:
    """Return the numbers of fields that follow each other, and their end.

    Key and number of a field are varints, so the fields are varints of which each other one is the
    key.
    """
    values: list[Any] = []
    while at < len(data):
        part = data[at : at + _PART]
        found = np.frombuffer(part, np.uint8)
        ends = np.flatnonzero(found < 128)
        ends = ends[: ends.size // 2 * 2]
        starts = np.concatenate([[0], ends[:-1] + 1])[: ends.size]
        same = (found[starts[::2]] == key) & (ends[1::2] - starts[1::2] < 10)
        others = np.flatnonzero(~same)
        count = int(others[0]) if others.size else same.size
        if not count:
            break
        stop = int(ends[2 * count - 1]) + 1
        values += _varints(part[:stop])[1::2].astype(_PACKED[kind]).tolist()
        at += stop
        if count < same.size:
            break
    return values, at


def _value(field: _Field, wire: int, value: Any, depth: int) -> Any:
    """Return a field's value, a list if it may have several; None for another wire type."""
    kind = field.kind
    if field.inner is not None or kind in ("text", "bytes", "view"):
        if wire != 2:
            return None
        if field.inner is not None:
            made: Any = field.inner.parsed(bytes(value) if field.inner.COPIED else value, depth + 1)
        elif kind == "text":
            made = _text(value)
        else:
            made = value if kind == "view" else bytes(value)
        return [made] if field.several else made
    if wire == 2:
        if not field.several:
            return None
        numbers = _packed(value, kind)
        return numbers if field.array else numbers.tolist()
    if kind in _NUMBERS:
        made = _NUMBERS[kind](value) if wire == 0 else None
    else:
        form, wanted = _FIXED[kind]
        made = struct.unpack(form, value)[0] if wire == wanted else None
    return [made] if field.several and made is not None else made


def _packed(data: memoryview, kind: str) -> np.ndarray[Any, Any]:
    if kind in _NUMBERS:
        numbers: np.ndarray[Any, Any] = _varints(data).astype(_PACKED[kind])
        return numbers
    if len(data) % np.dtype(_PACKED[kind]).itemsize:
        raise Damaged("packed numbers are cut short")
    return np.frombuffer(data, _PACKED[kind])


class StringStringEntryProto(Message):
    """A text with a key."""

    FIELDS = "key=1:text value=2:text"


class OperatorSetIdProto(Message):
    """The version of a domain."""

    FIELDS = "domain=1:text version=2:int"


class Dimension(Message):
    """The size of an axis: a number or a name."""

    FIELDS = "dim_value=1:int dim_param=2:text"
    ONE_OF = ("dim_value", "dim_param")


class TensorShapeProto(Message):
    """The sizes of a tensor's axes."""

    Dimension = Dimension
    FIELDS = "dim=1:*Dimension"


class Tensor(Message):
    """The type of a tensor."""

    FIELDS = "elem_type=1:int32 shape=2:TensorShapeProto"


class TypeProto(Message):
    """The type of a value."""

    FIELDS = (
        "tensor_type=1:Tensor sequence_type=4:Elements map_type=5:Map opaque_type=7:Opaque "
        "sparse_tensor_type=8:Tensor optional_type=9:Elements"
    )
    ONE_OF = (
        "tensor_type",
        "sequence_type",
        "map_type",
        "opaque_type",
        "sparse_tensor_type",
        "optional_type",
    )


class Elements(Message):
    """The type of a sequence or of an optional value, by that of its elements."""

    FIELDS = "elem_type=1:TypeProto"


class Map(Message):
    """The type of a map."""

    FIELDS = "key_type=1:int32 value_type=2:TypeProto"


class Opaque(Message):
    """A type of another domain."""

    FIELDS = "domain=1:text name=2:text"


class ValueInfoProto(Message):
    """The name and type of a value."""

    FIELDS = "name=1:text type=2:TypeProto"


class Segment(Message):
    """The place of a part in a tensor."""

    FIELDS = "begin=1:int end=2:int"


class TensorProto(Message):
    """A tensor with its elements."""

    EXTERNAL = 1
    FIELDS = (
        "dims=1:*int data_type=2:int32 segment=3:Segment float_data=4:#float int32_data=5:#int32 "
        "string_data=6:*bytes int64_data=7:#int name=8:text raw_data=9:view double_data=10:#double "
        "uint64_data=11:#uint external_data=13:*StringStringEntryProto data_location=14:int32"
    )


class SparseTensorProto(Message):
    """A tensor by its elements other than zero."""

    FIELDS = "values=1:TensorProto indices=2:TensorProto dims=3:*int"


class AttributeProto(Message):
    """A named value of a node."""

    FLOAT, INT, STRING, TENSOR, GRAPH = 1, 2, 3, 4, 5
    FLOATS, INTS, STRINGS, TENSORS, GRAPHS = 6, 7, 8, 9, 10
    SPARSE_TENSOR, SPARSE_TENSORS, TYPE_PROTO, TYPE_PROTOS = 11, 12, 13, 14
    FIELDS = (
        "name=1:text f=2:float i=3:int s=4:bytes t=5:TensorProto g=6:GraphProto floats=7:*float "
        "ints=8:*int strings=9:*bytes tensors=10:*TensorProto graphs=11:*GraphProto "
        "tp=14:TypeProto type_protos=15:*TypeProto type=20:int32 ref_attr_name=21:text "
        "sparse_tensor=22:SparseTensorProto sparse_tensors=23:*SparseTensorProto"
    )


class NodeProto(Message):
    """A node of a graph."""

    FIELDS = (
        "input=1:*text output=2:*text name=3:text op_type=4:text attribute=5:*AttributeProto "
        "domain=7:text"
    )


class GraphProto(Message):
    """A graph."""

    FIELDS = (
        "node=1:*NodeProto name=2:text initializer=5:*TensorProto doc_string=10:text "
        "input=11:*ValueInfoProto output=12:*ValueInfoProto value_info=13:*ValueInfoProto "
        "sparse_initializer=15:*SparseTensorProto"
    )


class FunctionProto(Message):
    """An operator that a model defines; its nodes are built later, when the file may be gone."""

    COPIED = True
    FIELDS = (
        "name=1:text input=4:*text output=5:*text attribute=6:*text node=7:*NodeProto "
        "opset_import=9:*OperatorSetIdProto domain=10:text attribute_proto=11:*AttributeProto"
    )


class ModelProto(Message):
    """A model."""

    FIELDS = (
        "ir_version=1:int producer_name=2:text producer_version=3:text domain=4:text "
        "model_version=5:int doc_string=6:text graph=7:GraphProto "
        "opset_import=8:*OperatorSetIdProto metadata_props=14:*StringStringEntryProto "
        "functions=25:*FunctionProto"
    )


def _declared(kind: type[Message]) -> Iterator[tuple[int, _Field]]:
    """Iterate over the fields of a class by number."""
    for text in kind.FIELDS.split():
        name, _, rest = text.partition("=")
        number, _, said = rest.partition(":")
        plain = said.lstrip("*#")
        inner = None if plain in _NUMBERS or plain in _EMPTY else globals()[plain]
        yield int(number), _Field(name, plain, plain != said, said[0] == "#", inner)


for _kind in Message.__subclasses__():
    _kind._known = dict(_declared(_kind))
    _kind._named = {field.name: field for field in _kind._known.values()}
