"""Journals of writes: what state held before, so that code can run again as the first time.

Requirements: a second run meets the state of the first one and leaves no trace of its own. A tensor
made by the first run must die with it, or recomputing would save no memory, so tensors are
remembered weakly.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, Self

from calor.local import local
from calor.tensor.tensor import wrap
from calor.tensor.values import Handle


class _Open(threading.local):
    def __init__(self) -> None:
        self.journals: list[Journal] = []
        # Those of code that has run and may run again.
        self.watching: weakref.WeakSet[Journal] = weakref.WeakSet()

    def all(self) -> list[Journal]:
        """Return the journals that hear of writes."""
        return [*self.journals, *self.watching] if self.watching else self.journals


opened = _Open()


class Journal:
    """What tensors and objects held before they were first changed while the journal was open.

    What a trace within does to them is no change: its owner stores the outcome when it is done.
    """

    def __init__(self) -> None:
        self.trace = _here()
        self.tensors: dict[int, tuple[Any, Any, Any]] = {}
        self.objects: dict[int, tuple[Any, dict[str, Any]]] = {}

    def __enter__(self) -> Self:
        opened.journals.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        opened.journals.remove(self)

    def note(self, handle: Handle) -> None:
        """Remember what a tensor holds, unless it is known already."""
        key, tensors = id(handle), self.tensors
        if key not in tensors:
            if local.jit:
                local.jit[-1].touch(handle)
            known = weakref.ref(handle, lambda _: tensors.pop(key, None))
            tensors[key] = (known, handle._value, handle._record)

    def note_object(self, obj: Any) -> None:
        """Remember the attributes of an object, unless they are known already."""
        key, objects = id(obj), self.objects
        if key not in objects:
            known = weakref.ref(obj, lambda _: objects.pop(key, None))
            objects[key] = (known, dict(vars(obj)))

    def watch(self) -> None:
        """Go on after the code has run: what it read is remembered before somebody changes it."""
        opened.watching.add(self)

    def stop(self) -> None:
        """Remember no more changes."""
        opened.watching.discard(self)

    def forget(self, handles: Iterable[Any]) -> None:
        """Drop tensors that the code made itself and returned."""
        for handle in handles:
            self.tensors.pop(id(handle), None)

    @contextlib.contextmanager
    def rewound(self) -> Iterator[None]:
        """Put state back to where the journal began; afterwards, to where it is now."""
        outer, opened.journals = opened.journals, []
        # To others the state of before is no change. What runs again may have journals of its own,
        # which hear of the state that is put back.
        watching, opened.watching = opened.watching, weakref.WeakSet()
        try:
            now = self._swapped()
            with Journal() as second:
                try:
                    yield
                finally:
                    second._swapped()
                    now._swapped()
        finally:
            watching.update(opened.watching)
            opened.journals, opened.watching = outer, watching

    def _swapped(self) -> Journal:
        """Give everything what is remembered; return a journal of what it held."""
        held = Journal()
        for known, value, record in list(self.tensors.values()):
            handle = known()
            if handle is not None:
                held.note(handle)
                note(handle)
                handle._value, handle._record = _seen_here(value), record
        for known, attributes in list(self.objects.values()):
            obj = known()
            if obj is not None:
                held.note_object(obj)
                note_object(obj)
                obj._restore(attributes)
        return held


def _seen_here(value: Any) -> Any:
    """Return a value, or the input of this trace that stands for it: it may be an older one."""
    if not local.jit or value.trace is local.jit[-1]:
        return value
    stand_in = wrap(value)
    local.jit[-1].touch(stand_in)
    return stand_in._value


def _here() -> Any:
    return local.jit[-1] if local.jit else None


def note(handle: Handle) -> None:
    """Called before a tensor is written, and where one is read that may be written later."""
    for journal in opened.all():
        if journal.trace is _here():
            journal.note(handle)


def note_object(obj: Any) -> None:
    """Called before an attribute of an object is assigned."""
    for journal in opened.all():
        if journal.trace is _here():
            journal.note_object(obj)
