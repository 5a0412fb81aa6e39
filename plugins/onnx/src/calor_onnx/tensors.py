"""Conversion of TensorProto to constants: typed fields, raw bytes, and external files.

Requirements: bytes of weights are memory-mapped, not read. A location outside of the model's
folder, or with fewer bytes than the shape needs, is refused when the model is loaded.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from calor_onnx.constants import Constant
from calor_onnx.errors import ModelError
from calor_onnx.limits import bounded
from calor_onnx.messages import TensorProto
from calor_onnx.scratch import Room
from calor_onnx.types import PACKED, STRING, HostType, numpy_type

Array = np.ndarray[Any, Any]
# Weights of more bytes stay in the file.
LARGE = 4096


def address(data: memoryview) -> int:
    """Return the address of bytes in memory."""
    start: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return start


@dataclass(frozen=True, slots=True)
class Blob:
    """A span of bytes of a file, or of a buffer in memory."""

    source: Path | memoryview
    offset: int
    length: int

    def bytes(self) -> Array:
        """Return the bytes, memory-mapped if they are in a file."""
        if not self.length:
            return np.empty(0, np.uint8)
        if isinstance(self.source, Path):
            start = self.offset - self.offset % mmap.ALLOCATIONGRANULARITY
            skip = self.offset - start
            with self.source.open("rb") as file:
                pages = mmap.mmap(
                    file.fileno(), skip + self.length, access=mmap.ACCESS_READ, offset=start
                )
            return np.frombuffer(pages, np.uint8, self.length, skip)
        return np.frombuffer(self.source, np.uint8, self.length, self.offset)


class Weights:
    """The location of a model's bytes: its file, and the folder of external data.

    ``path`` is the file that the model's messages are views of, at the address ``start``; ``files``
    are contents of external files in memory, by location.
    """

    def __init__(
        self,
        folder: Path | None,
        path: Path | None = None,
        start: int = 0,
        files: Mapping[str, memoryview] | None = None,
    ) -> None:
        self.folder = folder
        self.files = files or {}
        self._path = path
        self._start = start

    def constant(self, tensor: TensorProto, name: str = "") -> Constant:
        """Return the constant of a TensorProto.

        Raises
        ------
        ModelError
            If its bytes do not fit its type and shape.
        """
        name = name or tensor.name or "a constant"
        host = numpy_type(tensor.data_type, name)
        shape = tuple(tensor.dims)
        if any(n < 0 for n in shape):
            raise ModelError(f"{name}: shape {shape} has a negative size")
        if tensor.HasField("segment"):
            raise ModelError(f"{name} is a segment of a tensor, which calor-onnx does not read")
        if tensor.data_location == TensorProto.EXTERNAL:
            return _raw(self._external(tensor, name), host, shape, name)
        if tensor.HasField("raw_data"):
            return _raw(self._inside(tensor.raw_data), host, shape, name)
        return _typed(tensor, host, shape, name)

    def _inside(self, raw: bytes | memoryview) -> Blob:
        """Return the bytes of a message; many stay in the model's file, which is mapped again."""
        if self._path is None or isinstance(raw, bytes):
            return Blob(memoryview(raw), 0, len(raw))
        if len(raw) <= LARGE:
            return Blob(memoryview(bytes(raw)), 0, len(raw))
        return Blob(self._path, address(raw) - self._start, len(raw))

    def _external(self, tensor: TensorProto, name: str) -> Blob:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        held = self.files.get(location)
        if held is not None:
            return _span(entries, held, held.nbytes, name)
        if self.folder is None:
            raise ModelError(
                f"{name} is in the file {location!r} beside the model; load the model by its path"
            )
        folder = self.folder.resolve()
        try:
            # Symbolic links are resolved first, so that none leads out of the folder.
            path = (folder / location).resolve()
            inside = bool(location) and path.is_relative_to(folder) and path.is_file()
        except (OSError, RuntimeError, ValueError):
            inside = False
        if not inside:
            raise ModelError(
                f"{name} is in {location!r}, which is no file in the model's folder; put the file "
                f"beside the model"
            )
        return _span(entries, path, path.stat().st_size, name)


def _span(entries: dict[str, str], source: Path | memoryview, size: int, name: str) -> Blob:
    """Return the part of a file that entries tell; ModelError where it has none such."""
    location = entries["location"]
    try:
        offset = int(entries.get("offset", 0))
        length = int(entries.get("length", size - offset))
    except ValueError:
        raise ModelError(f"{name}: the place in {location!r} is no number") from None
    if offset < 0 or length < 0 or offset + length > size:
        raise ModelError(
            f"{name}: {location!r} has {size} bytes, not {length} at {offset}; "
            f"it is cut short, or belongs to another model"
        )
    return Blob(source, offset, length)


def _raw(blob: Blob, host: HostType, shape: tuple[int, ...], name: str) -> Constant:
    if host == STRING:
        raise ModelError(f"{name}: strings cannot be raw bytes")
    count = prod(shape)
    bits = _bits(host)
    needed = -(-count * bits // 8)
    if blob.length != needed:
        raise ModelError(f"{name}: {host.name} of shape {shape} needs {needed} bytes, not "
                         f"{blob.length}; the file is damaged")  # fmt: skip
    bounded(shape, max(host.itemsize, 1), name)

    def read(_: Room) -> Array:
        data = blob.bytes()
        if bits % 8:
            return unpack(data, bits, count).view(host).reshape(shape)
        return data.view(host.newbyteorder("<")).astype(host, copy=False).reshape(shape)

    return Constant(host, shape, read)


def _bits(host: HostType) -> int:
    return PACKED.get(host, host.itemsize * 8)


def unpack(data: Array, bits: int, count: int) -> Array:
    """Return packed elements of 2, 4 or 6 bits as bytes; the lowest bits come first."""
    if bits == 6:
        lowest = np.unpackbits(data, bitorder="little")[: count * 6].reshape(count, 6)
        return np.packbits(lowest, axis=1, bitorder="little").reshape(count)
    parts = [data >> shift & (2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(-1)[:count]


def _typed(tensor: TensorProto, host: HostType, shape: tuple[int, ...], name: str) -> Constant:
    try:
        if host == STRING:
            texts = [text.decode("utf-8") for text in tensor.string_data]
            array = np.array(texts, dtype=np.object_).reshape(shape)
        else:
            array = _elements(tensor, host, prod(shape)).reshape(shape)
    except (OverflowError, TypeError, UnicodeDecodeError, ValueError) as error:
        raise ModelError(f"{name}: the elements do not fit {host.name} {shape} ({error})") from None
    return Constant.of(array)


# The field of the elements of a type, and the type of a number in it; others are in int32_data.
_FIELDS: dict[HostType, tuple[str, Any]] = {
    np.dtype(np.float32): ("float_data", np.float32),
    np.dtype(np.complex64): ("float_data", np.float32),
    np.dtype(np.float64): ("double_data", np.float64),
    np.dtype(np.complex128): ("double_data", np.float64),
    np.dtype(np.int64): ("int64_data", np.int64),
    np.dtype(np.uint32): ("uint64_data", np.uint64),
    np.dtype(np.uint64): ("uint64_data", np.uint64),
}


def _elements(tensor: TensorProto, host: HostType, count: int) -> Array:
    """Return the elements of a tensor without raw bytes."""
    if host in _FIELDS:
        field, number = _FIELDS[host]
        numbers: Array = np.array(getattr(tensor, field), number)
        return numbers.view(host) if host.kind == "c" else numbers.astype(host)
    words: Array = np.array(tensor.int32_data, np.int32)
    if host.kind in "iu" and host not in PACKED:
        return words.astype(host)
    # Other types are given by their bits.
    if host.itemsize == 2:
        return words.astype(np.uint16).view(host)
    lowest = words.astype(np.uint8)
    bits = _bits(host)
    if bits in (2, 4):
        return unpack(lowest, bits, count).view(host)
    return (lowest & np.uint8((1 << bits) - 1)).view(host)
