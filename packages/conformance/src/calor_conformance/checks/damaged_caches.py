"""What a device keeps on disk and finds damaged, or under the name of something else.

A device is opened anew with an empty cache, computes, is opened again and computes from what it
kept. In between, files are cut, changed in one byte, emptied, replaced by noise or by each other's
contents, as a full disk, a crash, or a copy of half a cache leaves them; or a driver, another one
since, refuses each compiled kernel that it is given. Results are those of NumPy each time.
"""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch
from zlib import crc32

import numpy as np

import calor
from calor.backends.device import Device
from calor.dtypes import float32
from calor.errors import CompileError, DeviceError
from calor.plugins.registry import Registry

from .base import Array, Check, Place

CONTRACT: Final = "a cache on disk with files that are {} changes no result"
_CACHE: Final = ("CALOR_CACHE_DIR", "CALOR_CACHE")
# Nodes of a program that a device may keep the plan of.
_LONG: Final = 70
Rng = np.random.Generator


def _flipped(rng: Rng, data: bytes) -> bytes:
    if not data:
        return b"\0"
    at = int(rng.integers(len(data)))
    return data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :]


def _cut(rng: Rng, data: bytes) -> bytes:
    return data[: int(rng.integers(len(data) + 1))]


_DAMAGES: Final[tuple[Callable[[Rng, bytes], bytes], ...]] = (
    _flipped,
    _flipped,
    _cut,
    lambda rng, data: b"",
    lambda rng, data: rng.bytes(len(data)),
    lambda rng, data: data + b"\n",
)


def _damage(rng: Rng, folder: Path) -> None:
    for path in files(folder):
        path.write_bytes(_DAMAGES[int(rng.integers(len(_DAMAGES)))](rng, path.read_bytes()))


def _exchange(rng: Rng, folder: Path) -> None:
    """Give each file the contents of the next one of its kind."""
    kinds: dict[str, list[Path]] = {}
    for path in files(folder):
        kinds.setdefault(path.relative_to(folder).parts[0], []).append(path)
    for paths in kinds.values():
        paths.sort(key=lambda path: path.stat().st_size)
        contents = [path.read_bytes() for path in paths]
        for path, data in zip(paths, contents[1:] + contents[:1], strict=True):
            path.write_bytes(data)


_CHANGES: Final = {"damaged": _damage, "exchanged": _exchange}


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@contextmanager
def cache_in(folder: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _CACHE}
    os.environ.update({"CALOR_CACHE_DIR": folder, "CALOR_CACHE": "1"})
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                del os.environ[name]
            else:
                os.environ[name] = text


def _programs() -> list[Callable[..., Any]]:
    """Return programs of NumPy and of calor: kernels that look alike, and a long one."""

    def long(x: Any, y: Any) -> Any:
        for n in range(_LONG // 2):
            x = (x + y) if n % 3 else (x - y)
            x = x * 0.5
        return x

    return [
        lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x * y - x, long
    ]  # fmt: skip


@contextmanager
def _refusing(device: Device, refused: list[int]) -> Iterator[None]:
    """Let the driver of a device that runs kernels refuse each image when it comes first."""
    engine = getattr(device.backend, "engine", None)
    if engine is None:
        yield
        return
    queue = type(engine(device.index).kernels.device.queue)
    load, seen = queue.load, set[bytes]()

    def once(self: Any, image: bytes, kernel: Any) -> Any:
        if image not in seen:
            seen.add(image)
            refused[0] += 1
            raise CompileError("an image of another driver")
        return load(self, image, kernel)

    with patch.object(queue, "load", once):
        yield


def _session(name: str, x: Array, y: Array, refused: list[int] | None = None) -> list[Array]:
    """Return the results of the programs on a device that is opened for them."""
    registry = Registry()
    device = registry.device(name)
    refusing = nullcontext() if refused is None else _refusing(device, refused)
    try:
        with calor.device(device), refusing:
            given = calor.asarray(x), calor.asarray(y)
            return [calor.jit(program)(*given).numpy(copy=True) for program in _programs()]
    finally:
        registry.forget(device.backend)
        device.backend.close()


def _can_be_opened(name: str) -> bool:
    try:
        return not Registry().is_scheme(name.partition(":")[0])
    except DeviceError:
        # A device that is in no registry cannot be opened again.
        return False


def _refused(place: Place) -> None:
    name = place.plain.name
    if not _can_be_opened(name):
        return
    rng = np.random.default_rng([place.seed, crc32(b"refused")])
    x, y = rng.integers(-9, 10, (2, 5, 7)).astype(np.float32)
    wants, refused = [program(x, y) for program in _programs()], [0]
    with tempfile.TemporaryDirectory() as folder, cache_in(folder):
        for turn in ("as it was", "refused", "after that"):
            if turn == "refused" and not files(Path(folder)):
                return
            found = _session(name, x, y, refused if turn == "refused" else None)
            for k, (got, want) in enumerate(zip(found, wants, strict=True)):
                assert np.allclose(got, want, 1e-4, 1e-4), (
                    f"program {k} with kernels {turn}: {got.tolist()}, not {want.tolist()}"
                )


def _run(change: str, place: Place) -> None:
    name = place.plain.name
    if not _can_be_opened(name):
        return
    rng = np.random.default_rng([place.seed, crc32(change.encode())])
    x, y = rng.integers(-9, 10, (2, 5, 7)).astype(np.float32)
    wants = [program(x, y) for program in _programs()]
    with tempfile.TemporaryDirectory() as folder, cache_in(folder):
        for turn in ("as it was", change):
            if turn == change:
                if not files(Path(folder)):
                    return
                _CHANGES[change](rng, Path(folder))
            for k, (got, want) in enumerate(zip(_session(name, x, y), wants, strict=True)):
                assert np.allclose(got, want, 1e-4, 1e-4), (
                    f"program {k} with a cache {turn}: {got.tolist()}, not {want.tolist()}"
                )


def damaged_caches() -> Iterator[Check]:
    """Yield checks of damaged files, of files under each other's names, and of refused kernels."""
    for change in _CHANGES:
        yield Check(
            kind="stored",
            subject=f"caches-{change}",
            tier="training",
            contract=CONTRACT.format(change),
            run=partial(_run, change),
            text=lambda: "\n".join(
                inspect.getsource(f) for f in (_run, _session, _damage, _exchange)
            ),
            dtypes=(float32,),
            looks=True,
        )
    yield Check(
        kind="stored",
        subject="caches-refused",
        tier="training",
        contract=CONTRACT.format("refused by the driver"),
        run=_refused,
        text=lambda: "\n".join(inspect.getsource(f) for f in (_refused, _refusing, _session)),
        dtypes=(float32,),
        looks=True,
    )
