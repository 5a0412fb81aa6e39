"""A device on lanes whose memory has handles of parts, as most devices' has."""

import numpy as np

from calor.backends.device import device_of
from calor_interpreter.device import ONE_UNIT, LanesDevice, LanesMemory
from calor_kernel.runtime.backend import KernelBackend


class Handle(np.ndarray):
    """A piece of memory that can be looked up."""

    __hash__ = object.__hash__


class Parts(LanesMemory):
    """Memory with handles of parts."""

    def part(self, handle, offset, nbytes):
        return handle[offset : offset + nbytes].view(Handle)


def device_with_parts(name):
    """Return a device of its own whose memory has parts."""

    def opened(index):
        made = LanesDevice(ONE_UNIT, checks=False)
        made.memory = Parts()
        return made

    return device_of(KernelBackend(name, opened), 0)
