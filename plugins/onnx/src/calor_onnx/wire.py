"""Removal of large tensors from a model's bytes, so that parsing the rest copies none of them.

A model file is a protocol buffer: fields, each a number with a wire type, then a varint, 4 or 8
bytes, or a length and that many bytes (protobuf.dev/programming-guides/encoding). A weight is the
field ``raw_data`` of a nested TensorProto. The bytes of a large one stay in the file, and a short
token replaces them.

Requirements: one pass over the fields that can hold a weight, never over elements. Damaged bytes
are left to the parser, which refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

# Shorter fields stay in the message.
LARGE = 4096

# The path of messages to a tensor: message → field number → nested message.
_PATHS: dict[str, dict[int, str]] = {
    # Functions stay whole: their bodies are created later, when the file may have changed.
    "model": {ModelProto.GRAPH_FIELD_NUMBER: "graph"},
    "graph": {
        GraphProto.NODE_FIELD_NUMBER: "node",
        GraphProto.INITIALIZER_FIELD_NUMBER: "tensor",
    },
    "node": {NodeProto.ATTRIBUTE_FIELD_NUMBER: "attribute"},
    "attribute": {
        AttributeProto.T_FIELD_NUMBER: "tensor",
        AttributeProto.TENSORS_FIELD_NUMBER: "tensor",
        AttributeProto.G_FIELD_NUMBER: "graph",
        AttributeProto.GRAPHS_FIELD_NUMBER: "graph",
    },
    "tensor": {TensorProto.RAW_DATA_FIELD_NUMBER: "bytes"},
}
_DEPTH = 64


class Damaged(ValueError):
    """The bytes are not protobuf fields."""


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Damaged
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7


def _fields(data: memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Iterate over fields: (start of field, number, start and end of bytes), or (…, −1, −1)."""
    while at < end:
        start = at
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 2:
            length, at = _varint(data, at)
            if at + length > end:
                raise Damaged
            yield start, key >> 3, at, at + length
            at += length
            continue
        if kind == 0:
            _, at = _varint(data, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise Damaged
        yield start, key >> 3, -1, -1


def _key(number: int) -> bytes:
    return _encoded(number << 3 | 2)


def _encoded(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)


class Cut:
    """The model's bytes without its large tensors, and the (offset, length) of each of these."""

    def __init__(self, data: memoryview, token: bytes) -> None:
        self.spans: list[tuple[int, int]] = []
        self._data = data
        self._token = token
        try:
            self.rest = self._message("model", 0, len(data), 0)
        except Damaged:
            self.spans = []
            self.rest = bytes(data)

    def _message(self, kind: str, at: int, end: int, depth: int) -> bytes:
        """Return the bytes of a message with large tensors replaced."""
        if depth > _DEPTH:
            raise Damaged
        data, inner = self._data, _PATHS[kind]
        parts: list[bytes | memoryview] = []
        kept = at
        for start, number, first, last in _fields(data, at, end):
            held = inner.get(number)
            if held is None or last - first <= LARGE:
                continue
            parts.append(data[kept:start])
            kept = last
            if held == "bytes":
                made = self._token + len(self.spans).to_bytes(8, "little")
                self.spans.append((first, last - first))
            else:
                made = self._message(held, first, last, depth + 1)
            parts += [_key(number), _encoded(len(made)), made]
        parts.append(data[kept:end])
        return b"".join(parts)
