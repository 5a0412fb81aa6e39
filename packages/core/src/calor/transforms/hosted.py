"""The way through a jitted program for host arrays: in to buffers, out of buffers, nothing else.

Requirements: who has arrays and wants arrays pays for their copies and the program's run, and for
no tensors in between; what may have changed since the last call is looked at as in every call, and
where it has, this way gives up before anything was done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calor.config import config
from calor.local import local
from calor.transforms.jit import Jitted
from calor.transforms.program import MISS, Program

Array = np.ndarray[Any, Any]


class HostCall(Program):
    """A program that was made before, called with arrays; made by :func:`host_call`."""

    def __init__(self, program: Program) -> None:
        # It shares all that the program found out, its bindings too.
        self.__dict__.update(program.__dict__)
        self.device.holders.add(self)
        self._places = [place for _, place in self.traced.leaves]
        # Views are of memory that the device goes on using.
        self._views = bool(self.device.info.feature("host_views"))

    def fits(self, arrays: Sequence[Array]) -> bool:
        """Return whether arrays are those that the program takes, as they lie in memory."""
        return len(arrays) == len(self.specs) and all(
            a.shape == spec.shape and a.dtype == spec.dtype.numpy and a.flags.c_contiguous
            for a, spec in zip(arrays, self.specs, strict=True)
        )

    def __call__(self, arrays: Sequence[Array]) -> list[Array] | None:
        """Return the results, which are the caller's own; None where nothing was done.

        The arrays must be such as fit.
        """
        if local.jit or not config.jit:
            return None
        backend, index = self.device.backend, self.device.index
        upload, download, specs = backend.upload, backend.download, self.output_specs
        made = self.enter(False, [], [], [], [upload(index, a) for a in arrays])
        if made is MISS:
            return None
        found = [download(index, made[place], specs[place]) for place in self._places]
        return [a.copy() for a in found] if self._views else found

    def _results(self, made: list[Any]) -> list[Any]:
        """Return buffers as they are."""
        return made


def host_call(jitted: Jitted) -> HostCall | None:
    """Return the way for arrays through the program that was called last.

    None where it takes more than tensors, changes anything, or gives anything but tensors.

    >>> import calor
    >>> import numpy as np
    >>> from calor.transforms.hosted import host_call
    >>> double = calor.jit(lambda x: [x + x])
    >>> made = double(calor.ones(2))
    >>> host_call(double)([np.full(2, 4.0, np.float32)])
    [array([8., 8.], dtype=float32)]
    """
    return host_call_of(jitted.programs[0]) if jitted.programs else None


def host_call_of(program: Program) -> HostCall | None:
    """Return the way for arrays through a program; None where :func:`host_call` returns it."""
    plain = program.stateless and not program.results_differentiable
    alone = program.argument_kinds is None and program.arguments.tensors_alone
    if not plain or not alone or not all(is_tensor for is_tensor, _ in program.traced.leaves):
        return None
    return HostCall(program)
