"""The lanes device keeps the device contract: images of their own, memory, records, refusals."""

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import float16, float32, float64, int32, int64
from calor.errors import CompileError, OutOfMemoryError
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel import language as kl
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.errors import KernelCheckError, KernelTypeError
from calor_kernel.language import Buffer, Scalar, kernel

FLOATS, COUNT = Buffer(float32), Scalar(int64, nonnegative=True)


@kernel
def scaled(x, y, n, factor, *, width=1):
    i = kl.absolute_position() * width
    if i < n:
        y.store(i, x.load(i, width) * factor)


@kernel
def summed(x, y):
    i = kl.unit_index()
    held = kl.shared(32, float32)
    held[i] = x[kl.absolute_position()]
    kl.barrier()
    half = 16
    while half > 0:
        if i < half:
            held[i] = held[i] + held[i + half]
        kl.barrier()
        half //= 2
    if i == 0:
        y[kl.cube_position()] = held[0]


def load(device, built):
    source = device.toolchain.source(built)
    return device.queue.load(device.toolchain.compile(source, built.name), built)


def run(device, function, cubes, arrays, *numbers):
    """Run a kernel over arrays that lie in one piece of memory, 256 bytes apart."""
    handle = device.memory.alloc(256 * len(arrays))
    slots = [Slot(0, 256 * i) for i in range(len(arrays))]
    for slot, array in zip(slots, arrays, strict=True):
        device.memory.copy_in(handle, slot.offset, array)
    recorded = device.queue.record([Step(function, cubes, (*slots, *numbers))], 1)
    device.queue.run(recorded, [handle])
    device.queue.synchronize()
    for slot, array in zip(slots, arrays, strict=True):
        device.memory.copy_out(handle, slot.offset, array)
    device.memory.free(handle)


@pytest.mark.parametrize(
    ("info", "build", "cubes"),
    [
        (ONE_UNIT, {"width": 8}, (5, 1, 1)),
        (MANY_UNITS, {"cube": (16, 1, 1), "plane": 8}, (3, 1, 1)),
        (MANY_UNITS, {"cube": (16, 1, 1)}, (3, 1, 1)),
    ],
)
def test_a_kernel_runs_on_both_kinds_of_device(info, build, cubes):
    device = LanesDevice(info)
    built = scaled.build([FLOATS, FLOATS, COUNT, Scalar(float32)], **build)
    x, y = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
    run(device, load(device, built), cubes, [x, y], 40, 0.5)
    assert y.tolist() == (x * 0.5).tolist()
    assert device.memory.allocated == 0
    device.close()


def test_a_kernel_of_many_units():
    device = LanesDevice(MANY_UNITS)
    x, y = np.arange(64, dtype=np.float32), np.zeros(2, np.float32)
    run(
        device,
        load(device, summed.build([FLOATS] * 2, cube=(32, 1, 1), plane=8)),
        (2, 1, 1),
        [x, y],
    )
    assert y.tolist() == x.reshape(2, 32).sum(1).tolist()


def test_text_and_image_are_pure():
    built = [summed.build([FLOATS] * 2, cube=(32, 1, 1), plane=8) for _ in range(2)]
    toolchain = pickle.loads(pickle.dumps(LanesDevice(MANY_UNITS).toolchain))
    sources = [toolchain.source(k) for k in built]
    assert sources[0] == sources[1]
    assert sources[0].startswith("kernel summed(x: float32[], y: float32[]) cube=32x1x1:")
    assert toolchain.compile(sources[0], "summed") == toolchain.compile(sources[1], "summed")


def test_an_image_runs_in_another_process(tmp_path):
    device = LanesDevice()
    built = scaled.build([FLOATS, FLOATS, COUNT, Scalar(float32)])
    image = device.toolchain.compile(device.toolchain.source(built), "scaled")
    (tmp_path / "image").write_bytes(image)
    program = """
import sys, numpy as np
from calor_interpreter.device import LanesDevice
from calor_interpreter.launch import run_on_lanes
program = LanesDevice().queue.load(open(sys.argv[1], "rb").read(), None)
x, y = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
run_on_lanes(program, (3, 1, 1), [x, y, 3, 2.0])
print(y.tolist())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "image"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[0.0, 2.0, 4.0]\n"


def test_memory():
    memory = LanesDevice(limit=1000).memory
    a, b = memory.alloc(100), memory.alloc(300)
    assert memory.address(a) % 64 == memory.address(b) % 64 == 0
    assert np.isnan(a.view(np.float32)).all()
    memory.copy_in(a, 8, np.arange(5))
    memory.copy(b, 16, a, 8, 40)
    memory.copy(b, 24, b, 16, 40)
    out = np.zeros(5, np.int64)
    memory.copy_out(b, 24, out)
    assert out.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(OutOfMemoryError, match="needs 601 B, but 400 B of the limit of 1000 B"):
        memory.alloc(601)
    memory.free(a)
    memory.free(b)
    assert len(memory.alloc(0)) == 0
    memory.alloc(1000)


@kernel
def wants(x, y, *, what):
    i = kl.unit_index()
    if what == "barrier":
        kl.barrier()
    if what == "atomic":
        x.atomic("add", i, kl.constant(1, x.dtype))
    if what == "shared":
        held = kl.shared(20000, float32)
        held[i] = x[i]
        y[i] = held[i]
    if what == "plane":
        y[i] = kl.plane_reduce("add", x[i])


LACKS = {
    "units": (MANY_UNITS, (512, 1, 1), 8, "", float32, "above 256 units"),
    "one unit": (ONE_UNIT, (2, 1, 1), 1, "barrier", float32, "above 1 units"),
    "planes": (MANY_UNITS, (32, 1, 1), 32, "", float32, "planes of 32, not one of"),
    "shared": (MANY_UNITS, (8, 1, 1), 8, "shared", float32, "80000 bytes of shared memory"),
    "feature": ("atomics", (8, 1, 1), 8, "atomic", int32, "'atomic', which takes 'atomics'"),
    "64 bits": ("atomics_64", (8, 1, 1), 8, "atomic", int64, "which takes 'atomics_64'"),
    "float": ("float_atomics", (8, 1, 1), 8, "atomic", float32, "takes 'float_atomics'"),
    "plane": ("planes", (8, 1, 1), 8, "plane", float32, "'plane_reduce', which takes 'planes'"),
}


@pytest.mark.parametrize("row", LACKS)
def test_what_a_device_lacks_does_not_compile(row):
    info, cube, plane, what, dtype, text = LACKS[row]
    if isinstance(info, str):
        built = wants.build([Buffer(dtype)] * 2, cube=cube, plane=plane, what=what)
        LanesDevice(MANY_UNITS).toolchain.source(built)
        info = replace(MANY_UNITS, features=MANY_UNITS.features - {info})
    built = wants.build([Buffer(dtype)] * 2, cube=cube, plane=plane, what=what)
    with pytest.raises(CompileError, match=text):
        LanesDevice(info).toolchain.source(built)


def test_a_text_without_an_image():
    with pytest.raises(CompileError, match="no image line"):
        LanesDevice().toolchain.compile("kernel nothing():\n", "nothing")


RECORDS = {
    "number": ((Slot(0), Slot(1), Slot(0), 1.0), "n takes a number"),
    "slot": ((Slot(0), 3, 3, 1.0), "y takes a slot"),
    "count": ((Slot(0), Slot(1)), "takes 4 arguments, not 2"),
    "range": ((Slot(0), Slot(2), 1, 1.0), "y is slot 2 of 2"),
}


@pytest.mark.parametrize("row", RECORDS)
def test_records_are_checked(row):
    device = LanesDevice()
    function = load(device, scaled.build([FLOATS, FLOATS, COUNT, Scalar(float32)]))
    arguments, text = RECORDS[row]
    with pytest.raises(KernelTypeError, match=text):
        device.queue.record([Step(function, (1, 1, 1), arguments)], 2)


def test_broken_rules_come_from_the_run_unless_switched_off():
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    built = summed.build([FLOATS] * 2, cube=(32, 1, 1), plane=8)
    for operation in list(built.body.operations):
        if operation.name == "barrier":
            built.body.operations.remove(operation)
    device = LanesDevice(MANY_UNITS)
    with pytest.raises(KernelCheckError, match="no barrier stands between"):
        run(device, load(device, built), (1, 1, 1), [np.zeros(32, np.float32), y])
    device = LanesDevice(MANY_UNITS, checks=False)
    run(device, load(device, built), (1, 1, 1), [np.ones(32, np.float32), x])
    assert x[0] == 32


def test_seconds_and_misaligned_slots():
    device = LanesDevice()
    function = load(device, scaled.build([FLOATS, FLOATS, COUNT, Scalar(float32)]))
    handles = [device.memory.alloc(18), device.memory.alloc(16)]
    step = Step(function, (4, 1, 1), (Slot(0), Slot(1), 4, 1.0))
    seconds = device.queue.seconds(device.queue.record([step, step], 2), handles)
    assert len(seconds) == 2
    assert min(seconds) > 0
    step = Step(function, (4, 1, 1), (Slot(0, 2), Slot(1), 4, 1.0))
    with pytest.raises(KernelTypeError, match="2 bytes is no whole number of float32"):
        device.queue.run(device.queue.record([step], 2), handles)


def test_half_types_are_for_the_device_of_many_units():
    assert float16 in MANY_UNITS.dtypes
    assert float16 not in ONE_UNIT.dtypes
    assert {float32, float64, int64} <= ONE_UNIT.dtypes
