"""Faults of uploads, downloads, copies and of views that the host holds."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from calor.backends.numpy_backend import NumpyBuffer, NumpyExecutable, SharedBuffer

from .base import Array, Broken, Fault


class SharesUploads(Broken):
    """A buffer is the host array that was uploaded."""

    def upload(self, index: int, array: Array) -> Any:
        """Keep the caller's memory."""
        return NumpyBuffer(array, self._memory)


class WritableViews(Broken):
    """A downloaded view can be written, and writes to the tensor."""

    def download(self, index: int, buffer: Any, spec: Any) -> Array:
        """Return the memory itself."""
        view: Array = buffer.array.view()
        return view


class RemembersDownloads(Broken):
    """A buffer is downloaded once; later looks get what was there then."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: weakref.WeakKeyDictionary[Any, Array] = weakref.WeakKeyDictionary()

    def download(self, index: int, buffer: Any, spec: Any) -> Array:
        """Return what was downloaded before."""
        if buffer not in self.seen:
            self.seen[buffer] = np.array(buffer.array)
            self.seen[buffer].flags.writeable = False
        return self.seen[buffer]


class SharesCopies(Broken):
    """A copy is another name of the same memory."""

    def copy(self, index: int, buffer: Any, spec: Any, target: int) -> Any:
        """Return a view."""
        return NumpyBuffer(buffer.array, self._memory)


class AdoptsCopies(Broken):
    """A buffer that should share a host array has a copy of it."""

    def adopt(self, index: int, array: Array) -> Any:
        """Copy."""
        return SharedBuffer(array.copy(), self._memory)


class Unexported(NumpyBuffer):
    """A buffer that never knows of a look from outside."""

    __slots__ = ()
    exported = False


class ForgetsViews(Broken):
    """Buffers do not notice that somebody outside can see them, and are written in place."""

    class Calls(NumpyExecutable):
        """Wraps results."""

        def __call__(self, inputs: Sequence[Any], into: Any = None) -> Any:
            """Make buffers that say they are not exported."""
            made: list[Any] = super().__call__(inputs, into)
            memory: Any = self.backend._memory  # type: ignore[attr-defined]
            return [
                buffer if into is not None and into[i] is not None
                else Unexported(buffer.array, memory)
                for i, buffer in enumerate(made)
            ]  # fmt: skip

    executable = Calls

    def upload(self, index: int, array: Array) -> Any:
        """Make a buffer that says it is not exported."""
        return Unexported(np.array(array, order="C"), self._memory)


class TracksOneView(NumpyBuffer):
    """A buffer that knows of the array that was downloaded, and of no part of it."""

    __slots__ = ("view",)
    view: weakref.ref[Array]

    @property
    def exported(self) -> bool:
        """True while the array itself lives."""
        view = getattr(self, "view", None)
        return view is not None and view() is not None


class LosesSightOfParts(Broken):
    """A part of a downloaded view keeps the memory, and nobody counts it."""

    def upload(self, index: int, array: Array) -> Any:
        """Make a buffer that tracks one view."""
        return TracksOneView(np.array(array, order="C"), self._memory)

    def download(self, index: int, buffer: Any, spec: Any) -> Array:
        """Remember the view."""
        view = super().download(index, buffer, spec)
        if isinstance(buffer, TracksOneView):
            buffer.view = weakref.ref(view)
        return view


class Freed(NumpyBuffer):
    """A buffer whose memory others use as soon as it has died."""

    __slots__ = ()

    def __del__(self) -> None:
        if self.array.flags.writeable:
            self.array[...] = 0
        super().__del__()


class FreesUnderViews(Broken):
    """Memory is used again when its tensor dies, whoever still looks at it."""

    def leave(self, index: int, value: Array, spec: Any, into: Any) -> Any:
        """Make a buffer that is reused."""
        if into is not None:
            return super().leave(index, value, spec, into)
        return Freed(value, self._memory)


class AdoptsFromTheStart(Broken):
    """An adopted array that begins within another is taken from the other's start."""

    def adopt(self, index: int, array: Array) -> Any:
        """Take the allocation."""
        if isinstance(array.base, np.ndarray) and array.base.ndim == array.ndim == 1:
            array = array.base[: array.size]
        return SharedBuffer(array, self._memory)


class TwoDevices(Broken):
    """There are two devices, and what is copied from one to the other does not arrive."""

    def enumerate(self) -> int:
        """Return 2."""
        return 2

    def copy(self, index: int, buffer: Any, spec: Any, target: int) -> Any:
        """Copy within a device alone."""
        copied = super().copy(index, buffer, spec, target)
        if target != index:
            copied.array[...] = 0  # type: ignore[attr-defined]
        return copied


FAULTS = [
    Fault(
        "upload-shares",
        "an upload keeps the memory of the host array",
        SharesUploads,
        ("transfers/snapshot",),
    ),
    Fault(
        "view-writable",
        "a downloaded view can be written",
        WritableViews,
        ("features/host_views",),
    ),
    Fault(
        "download-remembered",
        "a second look at a buffer shows what the first did",
        RemembersDownloads,
        ("state/state_is_never_stale",),
    ),
    Fault(
        "copy-shares",
        "a copy to another device is the same memory",
        SharesCopies,
        ("transfers/copies",),
    ),
    Fault(
        "adopted-not-shared",
        "a buffer that should share a host array has a copy",
        AdoptsCopies,
        ("features/host_views",),
    ),
    Fault(
        "views-not-noticed",
        "a buffer does not know that it is looked at, and is written in place",
        ForgetsViews,
        ("features/host_views", "state/exported_views_stay"),
    ),
    Fault(
        "parts-of-views-not-noticed",
        "a buffer does not know that a part of a view is alive",
        LosesSightOfParts,
        ("features/host_views",),
    ),
    Fault(
        "freed-under-views",
        "memory is used again when its tensor dies, whoever still looks at it",
        FreesUnderViews,
        ("transfers/views_outlive_tensors", "transfers/dlpack"),
    ),
    Fault(
        "adopted-from-the-start",
        "an adopted array that begins within another is taken from the other's start",
        AdoptsFromTheStart,
        ("features/host_views",),
    ),
    Fault(
        "copies-do-not-arrive",
        "of two devices, a copy to the other one is zeros",
        TwoDevices,
        ("transfers/copies",),
    ),
]
