"""GGUF files: metadata and tensors, as llama.cpp writes them.

A file is a header, metadata by key, descriptions of tensors, and their bytes, aligned
(github.com/ggml-org/ggml, docs/gguf.md). Types that are read: float32, and the blocks of 32 weights
Q4_1 (a scale, a minimum, 4 bits each) and Q8_0 (a scale, 8 bits each).
"""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_NUMBERS = "BbHhIif?"
_WIDE = {10: "Q", 11: "q", 12: "d"}
F32, Q4_1, Q8_0 = 0, 3, 8


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self, kind: str) -> Any:
        (value,) = struct.unpack_from(f"<{kind}", self.data, self.at)
        self.at += struct.calcsize(kind)
        return value

    def text(self) -> str:
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size : self.at].decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, count = self.number("I"), self.number("Q")
            return [self.value(inner) for _ in range(count)]
        return self.number(_NUMBERS[kind] if kind < 8 else _WIDE[kind])


def read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the metadata and the tensors, as float32, of a file."""
    reader = _Reader(path.read_bytes())
    if reader.data[:4] != b"GGUF":
        raise ValueError(f"{path} is no GGUF file")
    reader.at = 8
    tensors, keys = reader.number("Q"), reader.number("Q")
    metadata = {}
    for _ in range(keys):
        key = reader.text()
        metadata[key] = reader.value(reader.number("I"))
    described = []
    for _ in range(tensors):
        name = reader.text()
        sizes = [reader.number("Q") for _ in range(reader.number("I"))]
        described.append((name, tuple(reversed(sizes)), reader.number("I"), reader.number("Q")))
    aligned = int(metadata.get("general.alignment", 32))
    start = -(-reader.at // aligned) * aligned
    return metadata, {
        name: _elements(reader.data, start + offset, shape, kind)
        for name, shape, kind, offset in described
    }


def _elements(data: bytes, start: int, shape: tuple[int, ...], kind: int) -> Array:
    count = prod(shape)
    if kind == F32:
        return np.frombuffer(data, np.float32, count, start).reshape(shape)
    heads = {Q4_1: 4, Q8_0: 2}
    if kind not in heads:
        raise ValueError(f"the type {kind} of GGUF is not read here")
    size = heads[kind] + (16 if kind == Q4_1 else 32)
    blocks = np.frombuffer(data, np.uint8, count // 32 * size, start).reshape(-1, size)
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    if kind == Q8_0:
        return (blocks[:, 2:].view(np.int8) * scale).reshape(shape)
    least = blocks[:, 2:4].copy().view(np.float16).astype(np.float32)
    small = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1)
    return (small * scale + least).reshape(shape)
