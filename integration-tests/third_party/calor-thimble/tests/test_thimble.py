"""The thimble as a user meets it; what its ops compute is for calor-conformance to say."""

from typing import Any

import numpy as np
import pytest

import calor
from calor.dtypes import float32, int64
from calor.errors import CompileError
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.language import Buffer, Scalar, absolute_position, kernel
from calor_thimble.device import Thimble


@kernel
def scale(x: Any, y: Any, n: Any, factor: Any) -> None:
    i = absolute_position()
    if i < n:
        y[i] = x[i] * factor


def built() -> Any:
    signature = [Buffer(float32, writable=False), Buffer(float32), Scalar(int64), Scalar(float32)]
    return scale.build(signature)


def test_a_kernel_is_c_that_runs() -> None:
    device, made = Thimble(), built()
    source = device.toolchain.source(made)
    assert "y[cube_x] = x[cube_x] * factor;" in source
    function = device.queue.load(device.toolchain.compile(source, made.name), made)
    handles = [device.memory.alloc(80) for _ in range(2)]
    x = np.arange(8, dtype=np.float32)
    device.memory.copy_in(handles[0], 64 - 16, x)
    step = Step(function, (8, 1, 1), (Slot(0, 64 - 16), Slot(1), 5, -0.5))
    recorded = device.queue.record([step], 2)
    device.memory.copy_in(handles[1], 0, np.zeros(20, np.float32))
    device.queue.run(recorded, handles)
    y = np.empty(8, np.float32)
    device.memory.copy_out(handles[1], 0, y)
    assert y.tolist() == [-0.0, -0.5, -1.0, -1.5, -2.0, 0, 0, 0]
    assert len(device.queue.seconds(recorded, handles)) == 1


def test_what_the_compiler_says_is_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain = Thimble().toolchain
    with pytest.raises(CompileError, match="refuses f: "):
        toolchain.compile("void f(void) {", "f")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompileError, match="set CC to the name of a C compiler"):
        Thimble().toolchain.compile("", "f")


def test_tensors_are_computed_on_it() -> None:
    x = calor.asarray([1.0, 2.0, 3.0], device="thimble")
    y = calor.jit(lambda x: calor.maximum(x * x - 2, 0))(x)
    assert y.device == calor.device("thimble")
    assert y.tolist() == [0.0, 2.0, 7.0]
