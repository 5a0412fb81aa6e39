"""Files that two write at once, and what a writer that was killed left beside them.

A file is written beside its place and moved there whole. Whoever writes the same file meanwhile may
take away what the dead left, and nothing of the living, however long these have taken. One writer
is held when all is written and the file is not in its place yet; the other one writes in between.
"""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32

from .base import Check, Place

CONTRACT: Final = "a file that two write is one of both, whole, and only what is dead is removed"
_NAMES: Final = ("file", "weights.safetensors", "a.b.calor")
# Seconds that a writer has stood still, and those that the check waits for a thread.
_OLD, _PATIENCE = 3600.0, 60.0


class _Held:
    """A writer in a thread of its own, which waits when it asks that its file is on the disk."""

    def __init__(self, value: Any, target: Path) -> None:
        self.there, self.go = threading.Event(), threading.Event()
        self.target = target
        self.part: Path | None = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._write, args=(value, target), daemon=True)

    def _write(self, value: Any, target: Path) -> None:
        try:
            calor.save(value, target)
        except BaseException as error:
            self.error = error
        finally:
            self.there.set()

    def stand(self) -> None:
        """Stand still with a file that looks old."""
        for path in self.target.parent.iterdir():
            if path != self.target:
                self.part = path
                _age(path)
        self.there.set()
        self.go.wait(_PATIENCE)

    def end(self) -> None:
        self.go.set()
        self.thread.join(_PATIENCE)
        if self.error is not None:
            raise AssertionError(f"the first writer met {self.error!r}") from self.error


@contextmanager
def _held(value: Any, target: Path) -> Iterator[_Held]:
    """Begin to write a file, up to where it is on the disk."""
    held, flushed = _Held(value, target), os.fsync

    def waiting(fd: Any) -> None:
        flushed(fd)
        if threading.current_thread() is held.thread:
            held.stand()

    os.fsync = waiting
    try:
        held.thread.start()
        assert held.there.wait(_PATIENCE), f"{target.name} is not written"
        yield held
        held.end()
    finally:
        os.fsync = flushed
        held.go.set()
        # Its folder is removed next.
        held.thread.join(_PATIENCE)


def _age(path: Path) -> None:
    before = time.time() - _OLD
    os.utime(path, (before, before))


def _values(target: Path) -> list[float]:
    made: list[float] = calor.load(target)["x"].tolist()
    return made


def _run(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 1009])
    for name in _NAMES:
        first, second = rng.normal(size=(2, 300)).astype(np.float32)
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, name)
            if rng.random() < 0.5:
                calor.save({"x": calor.asarray(second * 2)}, target)
            with _held({"x": calor.asarray(first)}, target) as held:
                part = held.part
                assert part is not None, f"{name} is written in its place"
                dead = part.with_name(part.name[:-6] + "x" + part.name[-5:])
                shutil.copy(part, dead)
                _age(dead)
                calor.save({"x": calor.asarray(second)}, target)
                assert part.exists(), f"{name}: the file that another one writes is gone"
                if find_spec("fcntl") is not None:
                    assert not dead.exists(), f"{name}: what a dead writer left is still there"
                assert _values(target) == second.tolist(), f"{name} is not what was written last"
            assert _values(target) == first.tolist(), f"{name} is not what was moved last"
            left = sorted(path.name for path in Path(folder).iterdir() if path != dead)
            assert left == [name], f"beside {name} are {left}"


def writes_at_once() -> Iterator[Check]:
    """Yield the check of two writers of a file."""
    yield Check(
        kind="transfers",
        subject="written-at-once",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, inspect.getmodule(_run) or _run),
        dtypes=(float32,),
        looks=True,
    )
