"""GGUF files, as llama.cpp and its kin write them: metadata, and tensors in blocks of few bits.

Requirements: a file is mapped, and a tensor's bytes are read when it is asked for; a damaged or
hostile file raises FormatError and reads nothing outside its own bytes. Tensors in blocks become
float32, which holds what they mean; the others keep their dtype. Types of blocks that are not read
are named.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, and ggml-quants.c for the blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from calor.dtypes import as_dtype
from calor.errors import DTypeError, FormatError
from calor.safetensors_file import File, bytes_of, name_of
from calor.specs import Spec, spec
from calor.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]
MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_NUMBERS: Final = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_TEXT, _LIST = 8, 9
_ALIGNMENT: Final = "general.alignment"
_AXES: Final = 4
# As nested as lists of metadata may be; real files nest none.
_DEEP: Final = 8


def _half(block: Array, start: int) -> Array:
    """Return the float16 at a place of each block, as float32 of shape (blocks, 1)."""
    return block[:, start : start + 2].copy().view("<f2").astype(np.float32)


def _fields(values: Array, bits: tuple[int, ...], mask: int, lanes: int) -> Array:
    """Return the fields of bytes: those of one shift for all bytes of a lane come together."""
    shifts = np.array(bits, np.uint8).reshape(1, 1, -1, 1)
    return (values.reshape(len(values), -1, 1, lanes) >> shifts) & np.uint8(mask)


def _nibbles(values: Array, lanes: int) -> Array:
    return _fields(values, (0, 4), 15, lanes).reshape(len(values), -1)


def _fifth(block: Array, start: int) -> Array:
    """Return the fifth bits of 32 weights, in their place."""
    bits = block[:, start : start + 4].copy().view("<u4")
    return ((bits >> np.arange(32, dtype=np.uint32)) & 1).astype(np.uint8) << np.uint8(4)


def _q4_0(b: Array) -> Array:
    return (_nibbles(b[:, 2:], 16).astype(np.float32) - 8) * _half(b, 0)


def _q4_1(b: Array) -> Array:
    return _nibbles(b[:, 4:], 16).astype(np.float32) * _half(b, 0) + _half(b, 2)


def _q5_0(b: Array) -> Array:
    return ((_nibbles(b[:, 6:], 16) | _fifth(b, 2)).astype(np.float32) - 16) * _half(b, 0)


def _q5_1(b: Array) -> Array:
    weights = (_nibbles(b[:, 8:], 16) | _fifth(b, 4)).astype(np.float32)
    return weights * _half(b, 0) + _half(b, 2)


def _q8_0(b: Array) -> Array:
    return b[:, 2:].view(np.int8).astype(np.float32) * _half(b, 0)


def _scales_and_minima(packed: Array) -> tuple[Array, Array]:
    """Return eight scales and eight minima of six bits each, from twelve bytes."""
    low, mid, high = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([low & 63, (high & 15) | ((low >> 2) & 48)], axis=1)
    minima = np.concatenate([mid & 63, (high >> 4) | ((mid >> 2) & 48)], axis=1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _with_minima(b: Array, weights: Array) -> Array:
    scales, minima = _scales_and_minima(b[:, 4:16])
    factor, least = (scales * _half(b, 0))[..., None], (minima * _half(b, 2))[..., None]
    made: Array = factor * weights.reshape(len(b), 8, 32) - least
    return made


def _q4_k(b: Array) -> Array:
    return _with_minima(b, _nibbles(b[:, 16:], 32).astype(np.float32))


def _q5_k(b: Array) -> Array:
    high = _fields(b[:, 16:48], tuple(range(8)), 1, 32).reshape(len(b), -1) << np.uint8(4)
    return _with_minima(b, (_nibbles(b[:, 48:], 32) | high).astype(np.float32))


def _q6_k(b: Array) -> Array:
    high = _fields(b[:, 128:192], (0, 2, 4, 6), 3, 32).reshape(len(b), -1) << np.uint8(4)
    weights = (_nibbles(b[:, :128], 64) | high).astype(np.float32) - 32
    factor = b[:, 192:208].view(np.int8).astype(np.float32) * _half(b, 208)
    made: Array = factor[..., None] * weights.reshape(len(b), 16, 16)
    return made


def _q2_k(b: Array) -> Array:
    weights = _fields(b[:, 16:80], (0, 2, 4, 6), 3, 32).reshape(len(b), 16, 16)
    factor = (b[:, :16] & 15).astype(np.float32) * _half(b, 80)
    least = (b[:, :16] >> 4).astype(np.float32) * _half(b, 82)
    return factor[..., None] * weights.astype(np.float32) - least[..., None]


def _q3_k(b: Array) -> Array:
    low = _fields(b[:, 32:96], (0, 2, 4, 6), 3, 32).reshape(len(b), 16, 16).astype(np.float32)
    missing = _fields(b[:, :32], tuple(range(8)), 1, 32).reshape(len(b), 16, 16) ^ 1
    scales = _fields(b[:, 96:104], (0, 4), 15, 8).reshape(len(b), 16)
    scales = scales | _fields(b[:, 104:108], (0, 2, 4, 6), 3, 4).reshape(len(b), 16) << np.uint8(4)
    factor = (scales.astype(np.float32) - 32) * _half(b, 108)
    made: Array = factor[..., None] * (low - missing.astype(np.float32) * 4)
    return made


class _Blocks(NamedTuple):
    """How many weights a block has, in how many bytes, and what they mean."""

    weights: int
    nbytes: int
    read: Callable[[Array], Array]


_PLAIN: Final[Mapping[int, Any]] = {
    0: np.float32, 1: np.float16, 24: np.int8, 25: np.int16, 26: np.int32, 27: np.int64,
    28: np.float64, 30: ml_dtypes.bfloat16,
}  # fmt: skip
_BLOCKS: Final[Mapping[int, _Blocks]] = {
    2: _Blocks(32, 18, _q4_0),
    3: _Blocks(32, 20, _q4_1),
    6: _Blocks(32, 22, _q5_0),
    7: _Blocks(32, 24, _q5_1),
    8: _Blocks(32, 34, _q8_0),
    10: _Blocks(256, 84, _q2_k),
    11: _Blocks(256, 110, _q3_k),
    12: _Blocks(256, 144, _q4_k),
    13: _Blocks(256, 176, _q5_k),
    14: _Blocks(256, 210, _q6_k),
}
_UNREAD: Final = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL",
    21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip


class _Described(NamedTuple):
    shape: tuple[int, ...]
    kind: int
    start: int


class _Cursor:
    """Reads a header, and nothing outside the file."""

    def __init__(self, data: Any, path: Path) -> None:
        self.data = data
        self.path = path
        self.at = len(MAGIC)

    def bytes(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise FormatError(f"{self.path}: the file ends within its header; it is truncated")
        self.at += size
        return bytes(self.data[self.at - size : self.at])

    def number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self.bytes(struct.calcsize(f"<{form}")))[0]

    def text(self) -> str:
        raw = self.bytes(self.number("Q"))
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"{self.path}: a text of the header is no UTF-8 ({error})") from None

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind == _TEXT:
            return self.text()
        if kind == _LIST and depth < _DEEP:
            inner, count = self.number("I"), self.number("Q")
            if count > len(self.data) - self.at:
                raise FormatError(f"{self.path}: a list of {count} values does not fit the file")
            return [self.value(inner, depth + 1) for _ in range(count)]
        form = _NUMBERS.get(kind)
        if form is None:
            raise FormatError(f"{self.path}: metadata of type {kind} is none that GGUF defines")
        return self.number(form)


class GGUFFile(Mapping[str, Array]):
    """The tensors of a GGUF file by name, as host arrays that are read when they are asked for.

    Parameters
    ----------
    path : str, path-like or binary stream
        The file, or a stream, which is read to its end.

    Attributes
    ----------
    path : pathlib.Path
        The file.
    metadata : dict of str to Any
        What the file says besides tensors: the architecture, the vocabulary and so on.
    specs : dict of str to Spec
        Shape and dtype of each tensor that can be read, without reading the elements.

    Raises
    ------
    FormatError
        If the file breaks the rules of the format.
    DTypeError
        On access to a tensor in blocks of a type that is not read.
    """

    def __init__(self, path: File) -> None:
        self.path: Final = name_of(path)
        self._data = bytes_of(path)
        if bytes(self._data[: len(MAGIC)]) != MAGIC:
            raise FormatError(f"{self.path}: the file is no GGUF file")
        cursor = _Cursor(self._data, self.path)
        version = cursor.number("I")
        if version not in _VERSIONS:
            raise FormatError(f"{self.path}: GGUF version {version}; versions 2 and 3 are read")
        tensors, keys = cursor.number("Q"), cursor.number("Q")
        self.metadata: Final[dict[str, Any]] = {}
        for _ in range(keys):
            name = cursor.text()
            self.metadata[name] = cursor.value(cursor.number("I"))
        self._described: Final[dict[str, _Described]] = {}
        for _ in range(tensors):
            name = cursor.text()
            if name in self._described:
                raise FormatError(f"{self.path}: {name!r} occurs twice")
            self._described[name] = self._one(cursor, name)
        self._begin = self._aligned(cursor.at)
        self.specs: Final[dict[str, Spec]] = {
            name: spec(d.shape, as_dtype(_PLAIN.get(d.kind, np.float32)))
            for name, d in self._described.items()
            if d.kind in _PLAIN or d.kind in _BLOCKS
        }

    def _one(self, cursor: _Cursor, name: str) -> _Described:
        axes = cursor.number("I")
        if axes > _AXES:
            raise FormatError(f"{self.path}: {name!r} has {axes} axes; GGUF allows {_AXES}")
        # The fastest axis comes first in the file.
        shape = tuple(cursor.number("Q") for _ in range(axes))[::-1]
        return _Described(shape, cursor.number("I"), cursor.number("Q"))

    def _aligned(self, position: int) -> int:
        alignment = self.metadata.get(_ALIGNMENT, 32)
        if type(alignment) is not int or alignment < 1:
            raise FormatError(f"{self.path}: an alignment of {alignment!r} is no number of bytes")
        return -(-position // alignment) * alignment

    def __getitem__(self, name: str) -> Array:
        shape, kind, start = self._described[name]
        plain, blocks = _PLAIN.get(kind), _BLOCKS.get(kind)
        if plain is None and blocks is None:
            raise DTypeError(
                f"{self.path}: {name!r} is stored in blocks of type {_UNREAD.get(kind, kind)}, "
                f"which calor does not read; the package gguf does: "
                f"gguf.quants.dequantize(data, type)"
            )
        count = prod(shape)
        per_row, size = (1, np.dtype(plain).itemsize) if blocks is None else blocks[:2]
        if blocks is not None and (not shape or shape[-1] % per_row):
            raise FormatError(f"{self.path}: rows of {name!r}, of {shape}, are no whole blocks")
        nbytes = count // per_row * size
        begin = self._begin + start
        if begin + nbytes > len(self._data):
            raise FormatError(f"{self.path}: {name!r} lies beyond the end; the file is truncated")
        raw = np.frombuffer(self._data, np.uint8, nbytes, begin)
        if blocks is None:
            little = raw.view(np.dtype(plain).newbyteorder("<"))
            return little.astype(np.dtype(plain), copy=False).reshape(shape)
        with np.errstate(invalid="ignore", over="ignore"):
            return blocks.read(raw.reshape(-1, size)).reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._described)

    def __len__(self) -> int:
        return len(self._described)

    def tensor(self, name: str, *, device: Any = None) -> Tensor:
        """Return a tensor of the file.

        Parameters
        ----------
        name : str
            The name of the tensor.
        device : Device or str, optional
            Where the result is. By default the current device.

        Returns
        -------
        Tensor
            The tensor; float32 if it is stored in blocks.

        Raises
        ------
        KeyError
            If the file has no such tensor.
        DTypeError
            If it is in blocks of a type that is not read.
        FormatError
            If its bytes are not in the file.
        """
        from calor.functions.creation import asarray

        return asarray(self[name], device=device)


def read_gguf(path: File) -> GGUFFile:
    """Return the tensors of a GGUF file by name, read when they are asked for.

    Parameters
    ----------
    path : str, path-like or binary stream
        The file, or a stream, which is read to its end.

    Returns
    -------
    GGUFFile
        A mapping from names to host arrays, with ``metadata``; its method ``tensor`` gives
        tensors. Blocks Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K become float32.

    Raises
    ------
    FormatError
        If the file breaks the rules of the format.
    DTypeError
        On access to a tensor in blocks of another type.

    References
    ----------
    https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

    Examples
    --------
    >>> import calor, io, struct
    >>> head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0)
    >>> head += struct.pack("<Q", 1) + b"w" + struct.pack("<IQIQ", 1, 2, 0, 0)
    >>> file = head + bytes(-len(head) % 32) + struct.pack("<2f", 1.0, 2.0)
    >>> calor.read_gguf(io.BytesIO(file))["w"].tolist()
    [1.0, 2.0]
    """
    return GGUFFile(path)


__all__ = ["MAGIC", "GGUFFile", "read_gguf"]
