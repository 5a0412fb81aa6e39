"""The safetensors file format, written and read.

Requirements: a file is written whole or not at all, and what a killed process left of one goes with
the next write; a read maps the file and touches only the elements that are asked for; streams are
read and written as they are; a damaged or hostile file raises FormatError and reads nothing outside
its own bytes. Files are exchangeable with other readers and writers of the format; complex128,
which the format lacks, is stored as pairs of float64, named in the file's metadata.

Source: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import numpy as np

from calor import dtypes
from calor.dtypes import DType, as_dtype
from calor.errors import ArgumentError, DTypeError, FormatError
from calor.specs import Spec, spec
from calor.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]
# A path, or a stream of bytes such as io.BytesIO.
File: TypeAlias = str | os.PathLike[str] | IO[bytes]

_STORED: Final[dict[DType, str]] = {
    dtypes.bool_: "BOOL",
    dtypes.int8: "I8",
    dtypes.int16: "I16",
    dtypes.int32: "I32",
    dtypes.int64: "I64",
    dtypes.uint8: "U8",
    dtypes.uint16: "U16",
    dtypes.uint32: "U32",
    dtypes.uint64: "U64",
    dtypes.float16: "F16",
    dtypes.bfloat16: "BF16",
    dtypes.float32: "F32",
    dtypes.float64: "F64",
    dtypes.complex64: "C64",
    dtypes.float8_e4m3fn: "F8_E4M3",
    dtypes.float8_e5m2: "F8_E5M2",
}
_KNOWN: Final = {name: dtype for dtype, name in _STORED.items()}
_METADATA: Final = "__metadata__"
_PAIRS: Final = "calor.complex128"
# The limit of the format's own reader; a longer header is an attack or an accident.
_HEADER_LIMIT: Final = 100_000_000
_LENGTH: Final = 8
# A part of a file that nobody has locked, and that was not written to for so long, is a dead one.
_DEAD_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Entry:
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


class SafetensorsFile(Mapping[str, Array]):
    """The tensors of a file by name, as read-only host arrays that are mapped, not loaded.

    Parameters
    ----------
    path : str, path-like or binary stream
        The file, or a stream, which is read to its end.

    Attributes
    ----------
    path : pathlib.Path
        The file.
    metadata : dict of str to str
        The strings that the file holds besides tensors.
    specs : dict of str to Spec
        Shape and dtype of each tensor, without reading the elements.

    Raises
    ------
    FormatError
        If the file breaks the rules of the format.
    DTypeError
        On access to a tensor of a dtype that calor does not have.
    """

    def __init__(self, path: File) -> None:
        self.path: Final = name_of(path)
        self._map = bytes_of(path)
        self._begin, header = _read_header(self._map, self.path)
        self.metadata: Final = _metadata(header.pop(_METADATA, {}), self.path)
        self._entries: Final = {
            name: _entry(name, described, self.path) for name, described in header.items()
        }
        _check_layout(self._entries, len(self._map) - self._begin, self.path)
        self._pairs: Final = _names(self.metadata.get(_PAIRS, "[]"), self.path)
        self.specs: Final[dict[str, Spec]] = {
            name: self._spec(name) for name in self._entries if self._known(name)
        }

    def __getitem__(self, name: str) -> Array:
        entry = self._entries[name]
        known = self.specs.get(name)
        if known is None:
            raise DTypeError(
                f"{self.path}: {name!r} is stored as {entry.dtype}, which calor does not have"
            )
        begin = self._begin + entry.start
        raw = np.frombuffer(self._map, np.uint8, entry.stop - entry.start, begin)
        if known.dtype is dtypes.bool_ and raw.size and raw.max() > 1:
            raise FormatError(f"{self.path}: {name!r} has truth values that are neither 0 nor 1")
        array = raw.view(known.dtype.numpy.newbyteorder("<"))
        return array.reshape(known.shape).astype(known.dtype.numpy, copy=False)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<safetensors file {str(self.path)!r}, {len(self)} tensors>"

    def tensor(self, name: str, *, device: Any = None) -> Tensor:
        """Return one of the tensors, copied from the file to a device.

        Parameters
        ----------
        name : str
            The name of the tensor.
        device : Device or str, optional
            Where the result is. By default the current device, which ``with calor.device(...)``
            sets.

        Returns
        -------
        Tensor
            The tensor.

        Raises
        ------
        KeyError
            If the file has no such tensor.
        DTypeError
            If calor does not have the dtype of the tensor.
        """
        from calor.functions.creation import asarray

        return asarray(self[name], device=device)

    def _known(self, name: str) -> bool:
        return self._entries[name].dtype in _KNOWN

    def _spec(self, name: str) -> Spec:
        entry = self._entries[name]
        if name not in self._pairs:
            return spec(entry.shape, _KNOWN[entry.dtype])
        if entry.dtype != "F64" or entry.shape[-1:] != (2,):
            raise FormatError(f"{self.path}: {name!r} is not stored as pairs of float64")
        return spec(entry.shape[:-1], dtypes.complex128)


def first_bytes(path: File) -> bytes:
    """Return how a file begins, b"" for a stream that cannot go back; a stream stays in its place.

    A file of safetensors begins with eight bytes, the length of the header, and the header's brace.
    """
    if isinstance(path, str | os.PathLike):
        with open(path, "rb") as file:
            return file.read(_LENGTH + 1)
    if not path.seekable():
        return b""
    place = path.tell()
    begin = path.read(_LENGTH + 1)
    path.seek(place)
    return begin


def is_sharded(path: File) -> bool:
    """Return whether a path is a folder, or an index of shards."""
    if not isinstance(path, str | os.PathLike):
        return False
    return str(path).endswith(".json") or os.path.isdir(path)


def write_safetensors(
    path: File,
    tensors: Mapping[str, Tensor | Array],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write named tensors and strings to a safetensors file.

    Parameters
    ----------
    path : str, path-like or binary stream
        The file, which is written completely or not at all; or a stream.
    tensors : mapping of str to Tensor or ndarray
        The tensors by name.
    metadata : mapping of str to str, optional
        Strings that the file holds besides tensors.

    Raises
    ------
    ArgumentError
        If a name or metadata is not a string.
    DTypeError
        If an array has a dtype that calor does not have.
    FileNotFoundError
        If the folder does not exist.

    References
    ----------
    https://github.com/huggingface/safetensors#format

    Examples
    --------
    >>> import calor, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> calor.write_safetensors(path, {"w": calor.ones((2, 2))}, {"author": "me"})
    >>> calor.read_safetensors(path).metadata
    {'author': 'me'}
    """
    texts = dict(metadata or {})
    given: tuple[Any, ...] = (*tensors, *texts, *texts.values())
    for text in given:
        if not isinstance(text, str) or text == _METADATA:
            raise ArgumentError(
                f"names and metadata of a safetensors file are strings, not {text!r}"
            )
    arrays = {name: _host(value) for name, value in tensors.items()}
    pairs = [name for name, a in arrays.items() if a.dtype == np.complex128]
    if pairs:
        texts[_PAIRS] = json.dumps(pairs)
    # Widest types first: then every tensor starts at a multiple of its element's size.
    order = sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize)
    header: dict[str, Any] = {_METADATA: texts} if texts else {}
    position = 0
    for name in order:
        header[name] = _described(arrays[name], position)
        position += arrays[name].nbytes
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % _LENGTH)
    with _replacement(path) as file:
        file.write(len(head).to_bytes(_LENGTH, "little"))
        file.write(head)
        for name in order:
            file.write(_raw(arrays[name]).data)


def _host(value: Any) -> Array:
    if isinstance(value, np.ndarray):
        as_dtype(value.dtype)
        return value
    array: Array = value.numpy()
    return array


def _described(array: Array, position: int) -> dict[str, Any]:
    dtype = as_dtype(array.dtype)
    shape = list(array.shape)
    if dtype is dtypes.complex128:
        dtype, shape = dtypes.float64, [*shape, 2]
    return {
        "dtype": _STORED[dtype],
        "shape": shape,
        "data_offsets": [position, position + array.nbytes],
    }


def _raw(array: Array) -> Array:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(little).reshape(-1).view(np.uint8)


def name_of(file: File) -> Path:
    """Return a file's path, or what a stream is called in errors."""
    if isinstance(file, str | os.PathLike):
        return Path(file)
    return Path(str(getattr(file, "name", "<stream>")))


@contextmanager
def _replacement(path: File) -> Iterator[IO[bytes]]:
    """Open a file beside the target, which takes its place once everything is written."""
    if not isinstance(path, str | os.PathLike):
        yield path
        return
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "the folder of the file does not exist; make it first", str(target.parent)
        )
    _remove_dead(target)
    part = target.with_name(f".{target.name}.{os.urandom(6).hex()}.part")
    try:
        with part.open("xb") as file:
            _lock(file)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _remove_dead(target: Path) -> None:
    """Remove the parts of a file whose writers were killed."""
    begin = f".{target.name}."
    for part in target.parent.iterdir():
        if not (part.name.startswith(begin) and part.suffix == ".part"):
            continue
        # Another process may remove it meanwhile, and an open one cannot be removed on Windows.
        with suppress(OSError), part.open("rb") as file:
            if time.time() - os.fstat(file.fileno()).st_mtime > _DEAD_S and _lock(file):
                part.unlink()


def _lock(file: IO[bytes]) -> bool:
    """Lock a file until it is closed; False if another process has it, True without locks."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # The file system has no locks.
        return True
    return True


# Reading: nothing in the header is believed before it is checked.


def bytes_of(file: File) -> mmap.mmap | bytes:
    """Return the bytes of a file, mapped where it is one on disk."""
    if not isinstance(file, str | os.PathLike):
        return file.read()
    with open(file, "rb") as opened:
        if os.fstat(opened.fileno()).st_size < _LENGTH:
            return opened.read()
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)


def _read_header(data: mmap.mmap | bytes, path: Path) -> tuple[int, dict[str, Any]]:
    """Return where the elements begin, and the header."""
    size = len(data)
    if size < _LENGTH:
        raise FormatError(f"{path}: a file of {size} bytes is not a safetensors file")
    length = int.from_bytes(data[:_LENGTH], "little")
    if length > min(_HEADER_LIMIT, size - _LENGTH):
        raise FormatError(
            f"{path}: a header of {length} bytes does not fit; the file is truncated, or is not a "
            f"safetensors file"
        )
    try:
        text = data[_LENGTH : _LENGTH + length].decode()
        header = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: the header cannot be read ({error})") from None
    if not isinstance(header, dict):
        raise FormatError(f"{path}: the header is not a table of tensors")
    return _LENGTH + length, header


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name occurs twice")
    return made


def _metadata(texts: Any, path: Path) -> dict[str, str]:
    if not isinstance(texts, dict) or not all(isinstance(t, str) for t in texts.values()):
        raise FormatError(f"{path}: the metadata is not a table of strings")
    return texts


def _names(text: str, path: Path) -> frozenset[str]:
    try:
        return frozenset(json.loads(text))
    except (ValueError, TypeError, RecursionError):
        raise FormatError(f"{path}: the metadata {_PAIRS!r} is not a list of names") from None


def _is_size(number: Any) -> bool:
    return type(number) is int and number >= 0


def _entry(name: str, described: Any, path: Path) -> _Entry:
    try:
        dtype, shape, (start, stop) = (
            described["dtype"],
            tuple(described["shape"]),
            described["data_offsets"],
        )
    except (TypeError, KeyError, ValueError):
        raise FormatError(f"{path}: {name!r} lacks a dtype, a shape or two offsets") from None
    if not isinstance(dtype, str) or not all(map(_is_size, (*shape, start, stop))):
        raise FormatError(f"{path}: {name!r} has a shape or offsets that are not sizes")
    known = _KNOWN.get(dtype)
    if known is not None and stop - start != prod(shape) * known.itemsize:
        raise FormatError(
            f"{path}: {name!r} has {stop - start} bytes, {dtype} of shape {shape} needs "
            f"{prod(shape) * known.itemsize}"
        )
    return _Entry(dtype, shape, start, stop)


def _check_layout(entries: Mapping[str, _Entry], size: int, path: Path) -> None:
    """Check that the tensors lie one after another and fill the rest of the file."""
    position = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.start != position or entry.stop < position:
            raise FormatError(f"{path}: {name!r} overlaps another tensor, or leaves a gap")
        position = entry.stop
    if position != size:
        raise FormatError(
            f"{path}: the tensors have {position} bytes, the file holds {size}; it is truncated, "
            f"or data was appended"
        )
