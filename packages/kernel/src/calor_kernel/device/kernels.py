"""Maps builds to loaded device functions, each made once.

Requirements: equal builds are one function, in this process and, by images on disk, in others. The
look-up of a known build costs as much as a dictionary's. Several cold ones are compiled in
parallel.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from calor.errors import CompileError, DeviceError, OutOfMemoryError
from calor.graph.attributes import exact
from calor_kernel.contract.work import Build
from calor_kernel.device.images import Images
from calor_kernel.device.protocol import Device
from calor_kernel.device.workers import (
    FEW,
    Job,
    Task,
    begin_tasks,
    compile_tasks,
    expect_jobs,
    image_of,
)
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.nodes import Kernel

Key = tuple[Build, Any]


class Kernels:
    """The loaded kernels of one device. ``compiled`` and ``found`` count the new ones."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.compiled = 0
        self.found = 0
        self._functions: dict[Key, Any] = {}
        # By identity: families cache their builds, and comparing builds is slow.
        self._met: dict[int, tuple[Build, Any]] = {}
        self.unlock()

    def unlock(self) -> None:
        """Start with a new lock, in a forked child, and without the parent's tasks."""
        self._lock = threading.RLock()
        # What workers compile early.
        self._early: dict[Key, Task] = {}

    @cached_property
    def images(self) -> Images:
        """The stored images; the sources are digested on first use."""
        return Images(self.device)

    def load(self, builds: Iterable[Build]) -> list[Any]:
        """Return the function of each build, compiling new ones; CompileError."""
        wanted = list(builds)
        met = self._met
        unmet = [build for build in wanted if id(build) not in met]
        if unmet:
            keys, known = [(build, exact(build.keywords)) for build in unmet], self._functions
            with self._lock:
                self._make([key for key in dict.fromkeys(keys) if key not in known])
                met.update((id(build), (build, known[build, e])) for build, e in keys)
        return [met[id(build)][1] for build in wanted]

    def expect(self) -> None:
        """Start workers for kernels that are likely to come: if some were cold, others will be."""
        if self.compiled:
            expect_jobs(self.device.toolchain)

    def begin(self, builds: Iterable[Build]) -> None:
        """Let workers compile kernels that are likely to be loaded, if some were cold before."""
        if not self.compiled:
            return
        keys = [(build, exact(build.keywords)) for build in builds]
        with self._lock:
            new = [key for key in keys if key not in self._functions and key not in self._early]
            tasks = {key: Task(self._job(key)) for key in new if self._stored(key)[1] is None}
            self._early |= tasks
            begin_tasks([*tasks.values()])

    def _job(self, key: Key) -> Job:
        return Job(key[0], self.device.toolchain, self.device.info.features)

    def _stored(self, key: Key) -> tuple[str | None, tuple[bytes, Kernel] | None]:
        """Return the name of a kernel on disk, and what is there."""
        try:
            name = self.images.key(key[0])
        except KernelTypeError:
            return None, None  # A kernel known only to this process has no name.
        return name, self.images.read(name)

    def _make(self, keys: Sequence[Key]) -> None:
        cold: dict[Key, str | None] = {}
        for key in keys:
            name, stored = self._stored(key)
            function = None if stored is None else self._accepted(*stored)
            if function is None:
                cold[key] = name
            else:
                self._functions[key] = function
                self.found += 1
        early = self._early
        tasks = [early.pop(k) if k in early else Task(self._job(k)) for k in cold]
        made = compile_tasks(tasks)
        for (key, name), answer in zip(cold.items(), made, strict=True):
            self._functions[key] = self._loaded(*answer)
            self.compiled += 1
            if name is not None:
                self.images.write(name, *answer)
        if len(cold) >= FEW:
            # These were of the same graph, and are not needed.
            for task in early.values():
                task.take()
            early.clear()

    def _accepted(self, image: bytes, kernel: Kernel) -> Any:
        """Return the function of a stored image; None if the driver, another one now, refuses it.

        Then it is compiled anew, which also tells what is wrong if it is not the image.
        """
        try:
            return self._loaded(image, kernel)
        except OutOfMemoryError:
            raise
        except DeviceError:
            return None

    def _loaded(self, image: bytes, kernel: Kernel) -> Any:
        """Return a kernel's function; CompileError if its cubes exceed the shared memory."""
        info = self.device.info
        if info.max_units > 1 and kernel.shared_bytes > info.shared_bytes:
            raise CompileError(
                f"kernel {kernel.name} has {kernel.shared_bytes} bytes of shared memory in a cube, "
                f"and {info.description} has {info.shared_bytes}; build it with a smaller tile"
            )
        return self.device.queue.load(image, kernel)

    def image(self, build: Build) -> tuple[bytes, Kernel]:
        """Return a freshly compiled image, independent of stored ones."""
        return image_of(Job(build, self.device.toolchain, self.device.info.features))
