"""Files of tensors that were damaged on the way are refused, each with FormatError.

A tree is drawn and stored, and one thing of the file is changed at a time: its length, its header,
where a tensor lies, and what shape it has. What is not damaged is read as it was.
"""

from __future__ import annotations

import inspect
import io
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import float32, int32
from calor.errors import FormatError

from .base import Array, Check, Place

CONTRACT: Final = "a damaged file of tensors is refused, and one that is whole is read as it was"
_TURNS: Final = 3
Rng = np.random.Generator
Header = dict[str, Any]


def _entries(header: Header) -> list[Header]:
    """Return what the header says of each tensor, in the order of the file."""
    found = [entry for name, entry in header.items() if name != "__metadata__"]
    return sorted(found, key=lambda entry: list(entry["data_offsets"]))


def _behind(rng: Rng, header: Header, data: bytes) -> bytes:
    return data + rng.bytes(int(rng.integers(1, 20)))


def _cut(rng: Rng, header: Header, data: bytes) -> bytes:
    return data[: -int(rng.integers(1, len(data)))]


def _gap(rng: Rng, header: Header, data: bytes) -> bytes:
    by, first, *rest = int(rng.integers(1, 9)), *_entries(header)
    for entry in rest:
        entry["data_offsets"] = [at + by for at in entry["data_offsets"]]
    at = first["data_offsets"][1]
    return data[:at] + bytes(by) + data[at:]


def _overlap(rng: Rng, header: Header, data: bytes) -> bytes:
    by, _, *rest = 4 * int(rng.integers(1, 3)), *_entries(header)
    for entry in rest:
        entry["data_offsets"] = [at - by for at in entry["data_offsets"]]
    return data[:-by]


def _swapped(rng: Rng, header: Header, data: bytes) -> bytes:
    entry = _entries(header)[int(rng.integers(3))]
    entry["data_offsets"] = entry["data_offsets"][::-1]
    return data


def _below(rng: Rng, header: Header, data: bytes) -> bytes:
    entry = _entries(header)[0]
    entry["data_offsets"] = [entry["data_offsets"][0] - 4, entry["data_offsets"][1]]
    return data


def _shape(by: int, rng: Rng, header: Header, data: bytes) -> bytes:
    shape = _entries(header)[int(rng.integers(3))]["shape"]
    shape[int(rng.integers(len(shape)))] += by
    return data


def _lacking(rng: Rng, header: Header, data: bytes) -> bytes:
    del _entries(header)[int(rng.integers(3))][str(rng.choice(["dtype", "shape", "data_offsets"]))]
    return data


def _fraction(rng: Rng, header: Header, data: bytes) -> bytes:
    shape = _entries(header)[int(rng.integers(3))]["shape"]
    shape[0] = shape[0] + 0.5
    return data


_DAMAGES: Final[dict[str, Callable[[Rng, Header, bytes], bytes]]] = {
    "bytes behind": _behind, "cut": _cut, "a gap": _gap, "an overlap": _overlap,
    "ends exchanged": _swapped, "a place below 0": _below, "a longer shape": partial(_shape, 1),
    "a shorter shape": partial(_shape, -1), "a missing key": _lacking, "half a row": _fraction,
}  # fmt: skip


def _joined(text: bytes, data: bytes, told: int | None = None) -> bytes:
    return (len(text) if told is None else told).to_bytes(8, "little") + text + data


def _texts(rng: Rng, text: bytes, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield files whose header is damaged as text."""
    yield "a header of too many bytes", _joined(text, data, 1 << 40)
    yield "a header that is cut", _joined(text[: -int(rng.integers(2, len(text)))], data)
    yield "a name twice", _joined(text.rstrip()[:-1] + b"," + text.strip()[1:], data)
    yield "a header that is a list", _joined(b"[]", data)
    yield "a header of no text", _joined(b"\xff\xfe" + text[2:], data)
    yield "nothing but a length", (8).to_bytes(8, "little")
    yield "nothing", b""


def _read(content: bytes) -> Any:
    return calor.load(io.BytesIO(content))


def _refused(what: str, content: bytes) -> None:
    try:
        found = _read(content)
    except FormatError:
        return
    raise AssertionError(f"a file with {what} is read as {found!r}")


def _turn(rng: Rng) -> None:
    kinds = (np.float32, np.int32)
    tree: dict[str, Array] = {
        name: rng.integers(-99, 99, [int(n) for n in rng.integers(2, 6, 2)]).astype(kinds[n % 2])
        for n, name in enumerate(("first", "second", "third"))
    }
    stream = io.BytesIO()
    calor.save({name: calor.asarray(x) for name, x in tree.items()}, stream)
    whole = stream.getvalue()
    found = _read(whole)
    assert set(found) == set(tree), f"{sorted(found)} is read, not {sorted(tree)}"
    for name, x in tree.items():
        assert np.array_equal(found[name].numpy(), x), f"{name} is read as {found[name]!r}"
    size = int.from_bytes(whole[:8], "little")
    text, data = whole[8 : 8 + size], whole[8 + size :]
    for what, damage in _DAMAGES.items():
        header = json.loads(text)
        changed = damage(rng, header, data)
        _refused(what, _joined(json.dumps(header).encode(), changed))
    for what, content in _texts(rng, text, data):
        _refused(what, content)


def _run(place: Place) -> None:
    for turn in range(_TURNS):
        _turn(np.random.default_rng([place.seed, crc32(b"damaged files"), turn]))


def damaged_files() -> Iterator[Check]:
    """Yield the check of damaged files."""
    yield Check(
        kind="refusals",
        subject="damaged-files",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _turn),
        dtypes=(float32, int32),
        looks=True,
    )
