"""Does each family do what it does on a device that launches few cubes along an axis?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import bfloat16
from calor.ops.base import table
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_interpreter.launch import run_on_lanes
from calor_interpreter.verify import verify
from calor_kernel.ir.passes import fold_cubes
from calor_kernel.language import (
    Buffer,
    Scalar,
    barrier,
    constant,
    cube_count,
    cube_position,
    kernel,
)
from calor_kernel.planning import recording
from calor_kernel.runtime.backend import KernelBackend

# Several rows of cubes along y, of which the last is not full, and none along z.
FEW = (3, 1 << 20, 1)
FRAGMENTS = replace(
    MANY_UNITS, features=MANY_UNITS.features | {"load_matrix"}, planes=(32,), shared_bytes=227 << 10
)
WINDOW = {
    "window": (2, 2),
    "stride": (1, 1),
    "padding": ((0, 1), (1, 0)),
    "dilation": (1, 1),
}
CONV = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}


def floats(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def attention(q, k, v):
    return table()["attention"](q, k, v, causal=True, scale=0.5)[0]


def conv(x, w):
    return table()["conv"](x, w, **CONV)


def gradients(function):
    def run(*given):
        return calor.grad(lambda *given: (function(*given) ** 2).sum(), argnums=(0, 1))(*given)

    return run


# A function and its operands, of more than five cubes along some axis.
FAMILIES = {
    "elementwise": (lambda x: calor.exp(x) + x.T, (floats(40, 40),)),
    "copying": (lambda x: calor.permute_dims(x, (2, 0, 1)) + 0, (floats(20, 40, 9),)),
    "reduce rows": (lambda x: x.sum(axis=1), (floats(200, 300),)),
    "reduce columns": (lambda x: x.max(axis=1), (floats(6, 20, 65),)),
    "argmax": (lambda x: x.argmax(axis=0), (floats(33, 900),)),
    "softmax": (lambda x: calor.softmax(x, axis=-1), (floats(700, 90),)),
    "scan": (lambda x: calor.cumulative_sum(x, axis=-1), (floats(400, 33),)),
    "look-back": (lambda x: calor.cumulative_max(x, axis=-1), (floats(1, 30_000),)),
    "scan columns": (lambda x: calor.cumulative_sum(x, axis=1), (floats(5, 40, 90),)),
    "sort": (lambda x: calor.sort(x, axis=-1), (floats(9, 40),)),
    "sort digits": (lambda x: calor.sort(x, axis=-1), (floats(1, 9000),)),
    "matmul": (lambda a, b: a @ b, (floats(9, 20, 17), floats(9, 17, 33))),
    "matmul gradients": (gradients(lambda a, b: a @ b), (floats(9, 12, 17), floats(9, 17, 13))),
    "matmul vector": (lambda a, b: a @ b, (floats(9, 1, 17), floats(9, 17, 33))),
    "conv": (conv, (floats(9, 3, 6, 5), floats(4, 3, 3, 3))),
    "conv gradients": (gradients(conv), (floats(9, 3, 6, 5), floats(4, 3, 3, 3))),
    "pool": (lambda x: table()["window_reduce"](x, kind="sum", **WINDOW), (floats(9, 4, 9, 9),)),
    "attention": (attention, (floats(5, 2, 9, 8),) * 3),
    "attention gradients": (
        gradients(lambda q, k: attention(q, k, k)),
        (floats(5, 2, 9, 8), floats(5, 2, 9, 8)),
    ),
    "gather": (lambda x, i: x[i], (floats(40, 33), np.arange(60) % 40)),
    "scatter": (
        lambda x, i, u: table()["scatter_nd"](x, i, u, update="add"),
        (floats(40, 33), np.arange(60)[:, None] % 40, floats(60, 33)),
    ),
    "concat": (lambda x: calor.concat([x, x, -x], axis=1), (floats(200, 133),)),
    "random": (lambda k, c: table()["random_bits"](k, c, shape=(300_000,), bits=32),
               (np.array([1, 2], np.uint32), np.array([1, 2, 3, 4], np.uint32))),
    "fft": (lambda x: calor.abs(calor.fft.fft(x)), (floats(30, 60),)),
}  # fmt: skip
# As above, of shapes and a type that matrix instructions take; kernels of these have "mma" in
# their names.
HEADS = (floats(5, 2, 24, 16),) * 3
HALVES = {
    "matmul": (floats(9, 64, 32), floats(9, 32, 64)),
    "conv": (floats(30, 16, 4, 5), floats(16, 16, 3, 3)),
    "attention": HEADS,
    "attention gradients": HEADS[:2],
}


def device_that_launches(info, most):
    few = replace(info, max_cubes=most)
    return device_of(KernelBackend("few", lambda index: LanesDevice(few, checks=False)), 0)


@pytest.fixture(scope="module")
def devices():
    """Return devices of both kinds, each as it is and one that launches few cubes."""
    return {
        info.planes: [device_that_launches(info, most) for most in (info.max_cubes, FEW)]
        for info in (MANY_UNITS, FRAGMENTS)
    }


@pytest.mark.parametrize("name", [*FAMILIES, *(f"{name} of halves" for name in HALVES)])
def test_families(monkeypatch, devices, name):
    folded, found = [], []
    fit = recording.fitted

    def seen(launch, info, op):
        made = fit(launch, info, op)
        folded.append(made.build.folded and made.build.function.name)
        return made

    monkeypatch.setattr(recording, "fitted", seen)
    function, given = FAMILIES[name.removesuffix(" of halves")]
    given = given if name in FAMILIES else HALVES[name.removesuffix(" of halves")]
    plenty, few = devices[(MANY_UNITS if name in FAMILIES else FRAGMENTS).planes]
    for device in (plenty, few):
        folded.clear()
        with calor.device(device):
            operands = [calor.asarray(array) for array in given]
            if name not in FAMILIES:
                operands = [x.astype(bfloat16) for x in operands]
            made = function(*operands)
            made = made if isinstance(made, tuple | list) else (made,)
            found.append([x.numpy().tobytes() for x in made])
        assert any(folded) == (device is few)
        if device is few and name not in FAMILIES:
            assert any("mma" in str(kernel) for kernel in folded)
    assert found[0] == found[1]


@kernel
def name_cubes(names, seen):
    place = cube_position(0) + cube_count(0) * (cube_position(1) + cube_count(1) * cube_position(2))
    barrier()
    name = cube_position(0) + 10 * cube_position(1) + 100 * cube_position(2)
    names[place] = name.to(names.dtype)
    seen.atomic("add", place, constant(1, seen.dtype))


@pytest.mark.parametrize("cubes", [(24, 1, 1), (5, 5, 1), (13, 2, 1)])
def test_each_cube_is_there_once(cubes):
    build = name_cubes.build([Buffer(calor.int32)] * 2, cube=(1, 1, 1))
    built = verify(fold_cubes(build))
    assert [p.declared for p in built.parameters[2:]] == [Scalar(calor.int64, nonnegative=True)] * 3
    names, seen = np.zeros(24, np.int32), np.zeros(24, np.int32)
    run_on_lanes(built, cubes, [names, seen, 2, 3, 4])
    assert (seen == 1).all()
    wanted = [x + 10 * y + 100 * z for z in range(4) for y in range(3) for x in range(2)]
    assert names.tolist() == wanted
