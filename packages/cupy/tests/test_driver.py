"""The driver's errors as calor's, and copies on a stream, with a driver that records its calls."""

from types import SimpleNamespace

import numpy as np
import pytest

from calor.errors import DeviceError, DeviceLostError, OutOfMemoryError
from calor_cupy.driver.codes import Codes
from calor_cupy.driver.device import StreamMemory
from calor_cupy.driver.stream import Stream

CODES = Codes("CUDA", {2}, {700: "bad address"}, {100: "no GPU"}, {209: "old image"}, "list-gpus")


class Failed(RuntimeError):
    """An error of the driver."""

    def __init__(self, status):
        super().__init__(f"error {status}")
        self.status = status


class Runtime(SimpleNamespace):
    """A runtime that notes copies, and fails as ``fails`` says."""

    streamNonBlocking = 1
    memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = range(3)

    def __init__(self):
        super().__init__(calls=[], fails=None)

    def setDevice(self, number):
        self.calls.append(("use", number))

    def streamCreateWithFlags(self, flags):
        return 7

    def streamSynchronize(self, stream):
        self.calls.append(("wait", stream))

    def memcpyAsync(self, target, source, nbytes, kind, stream):
        if self.fails is not None:
            raise Failed(self.fails)
        self.calls.append(("copy", target, nbytes, kind, stream))


class Memory(StreamMemory):
    """Memory that nothing is allocated from."""

    def alloc(self, nbytes):
        raise NotImplementedError

    def free(self, handle):
        raise NotImplementedError


@pytest.fixture
def memory():
    return Memory(Stream(1, Runtime(), None, CODES))


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (2, OutOfMemoryError, "cuda:1: out of memory: copying 4 bytes; free tensors"),
        (700, DeviceLostError, "cuda:1: bad address: .* a new process can"),
        (209, DeviceError, "cuda:1: old image: .* doctor says more"),
        (100, DeviceError, "cuda:1: no GPU: .* `list-gpus` says"),
        (9, DeviceError, "cuda:1: copying 4 bytes: error 9"),
    ],
)
def test_codes_are_typed_errors(memory, code, kind, text):
    memory.on.runtime.fails = code
    with pytest.raises(kind, match=text) as found:
        memory.copy(0, 0, 64, 0, 4)
    assert type(found.value) is kind


def test_lost_device_refuses_later_work(memory):
    memory.on.runtime.fails = 700
    with pytest.raises(DeviceLostError):
        memory.copy(0, 0, 64, 0, 4)
    memory.on.runtime.fails = None
    with pytest.raises(DeviceLostError, match="bad address"):
        memory.copy(0, 0, 64, 0, 4)


def test_errors_without_a_code_are_not_of_the_driver():
    with pytest.raises(RuntimeError, match="ours"), CODES.typed("trying"):
        raise RuntimeError("ours")


def test_copies_from_the_host_wait_and_others_do_not(memory):
    memory.copy_in(256, 16, np.zeros(3, np.float32))
    memory.copy(512, 0, 256, 0, 8)
    memory.copy_in(256, 0, np.zeros(0, np.float32))
    made = [call for call in memory.on.runtime.calls if call[0] != "use"]
    assert made == [("copy", 272, 12, 0, 7), ("wait", 7), ("copy", 512, 8, 2, 7)]
