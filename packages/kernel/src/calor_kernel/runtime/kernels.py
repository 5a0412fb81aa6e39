"""From what a launch is built from to a function that a device runs: each made once.

Requirements: equal builds are one function; looking one up costs as much as a dictionary; building
and compiling are pure, so they may happen anywhere.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from calor.ops.attributes import exact
from calor_kernel.library.work import Build
from calor_kernel.runtime.device import Device


class Kernels:
    """The loaded kernels of one device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._functions: dict[Any, Any] = {}
        self.compiled = 0
        self.unlock()

    def unlock(self) -> None:
        """Start with a new lock, in a forked child."""
        self._lock = threading.RLock()

    def load(self, builds: Iterable[Build]) -> list[Any]:
        """Return the function of each build, compiling those that are new; CompileError."""
        keys = [(build, exact(build.keywords)) for build in builds]
        known = self._functions
        new = {key: None for key in keys if key not in known}
        if new:
            with self._lock:
                for key in new:
                    if key not in known:
                        known[key] = self._make(key[0])
        return [known[key] for key in keys]

    def _make(self, build: Build) -> Any:
        toolchain = self.device.toolchain
        kernel = build.kernel(self.device.info.features)
        self.compiled += 1
        image = toolchain.compile(toolchain.source(kernel), kernel.name)
        return self.device.queue.load(image, kernel)
