"""Does the kernel of each family do its work under a guard, and nothing in a run that failed?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import uint32
from calor.errors import ElementIndexError
from calor.ops.base import find, table
from calor_interpreter.device import MANY_UNITS, LanesDevice, LanesMemory
from calor_interpreter.launch import run_on_lanes
from calor_interpreter.verify import verify
from calor_kernel.contract.work import Build, Guard, Launch, Output
from calor_kernel.ir.passes.cubes import COUNT
from calor_kernel.ir.passes.guard import GUARD
from calor_kernel.language import Buffer, absolute_position, barrier, cube_count, kernel
from calor_kernel.runtime.backend import KernelBackend

INFO = replace(
    MANY_UNITS, features=MANY_UNITS.features | {"load_matrix"}, planes=(32,), shared_bytes=227 << 10
)
CONV = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
GOOD, BAD = np.array([0, 1]), np.array([2, 0])


class Apart(LanesMemory):
    """Memory that the host does not see."""

    def address(self, handle):
        return None


def floats(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def attention(q, k, v):
    return table()["attention"](q, k, v, causal=True, scale=0.5)[0]


FAMILIES = {
    "elementwise": (lambda x: calor.exp(x) + 1, (floats(40, 40),)),
    "copying": (lambda x: calor.permute_dims(x, (2, 0, 1)) + 0, (floats(5, 40, 9),)),
    "reduce rows": (lambda x: x.sum(axis=1), (floats(20, 300),)),
    "reduce columns": (lambda x: x.max(axis=0), (floats(60, 65),)),
    "argmax": (lambda x: x.argmax(axis=1), (floats(3, 900),)),
    "softmax": (lambda x: calor.softmax(x, axis=-1), (floats(7, 90),)),
    "scan": (lambda x: calor.cumulative_sum(x, axis=-1), (floats(4, 600),)),
    "sort": (lambda x: calor.sort(x, axis=-1), (floats(3, 40),)),
    "matmul": (lambda a, b: a @ b, (floats(2, 20, 17), floats(2, 17, 33))),
    "matmul vector": (lambda a, b: a @ b, (floats(1, 170), floats(170, 33))),
    "conv": (lambda x, w: table()["conv"](x, w, **CONV), (floats(2, 3, 6, 5), floats(4, 3, 3, 3))),
    "attention": (attention, (floats(2, 2, 9, 8),) * 3),
    "concat": (lambda x: calor.concat([x, -x], axis=1), (floats(20, 13),)),
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name):
    function, given = FAMILIES[name]
    made = LanesDevice(INFO)
    made.memory = Apart()
    device = device_of(KernelBackend("guarded", lambda index: made), 0)
    backend = device.backend

    def step(t, i, *given):
        picked = find("gather")(t, i, axis=0)
        return function(*given), picked

    arrays = [floats(2, 4096), GOOD, *given]
    with calor.device("numpy"):
        graph = calor.trace(step, *map(calor.asarray, arrays))
    plan = backend.compile(0, graph)
    known = graph.output_specs[0]
    buffers = [backend.upload(0, a) for a in arrays]
    bad = [buffers[0], backend.upload(0, BAD), *buffers[2:]]
    (wanted, _) = plan(buffers)
    state = backend.upload(0, np.ones(known.shape, known.dtype.numpy))
    (laid,) = plan.recorder.laid({0: -1}).lists
    assert any(launched.launch.build.guarded for launched, _ in laid)
    with pytest.raises(ElementIndexError):
        # A plan whose results take less memory apart is copied to the state after a wait.
        backend.download(0, plan(bad, [state, None])[1], graph.output_specs[1])
    assert (backend.download(0, state, known) == 1).all()
    plan(buffers, [state, None])
    found, right = (backend.download(0, b, known) for b in (state, wanted))
    assert found.tobytes() == right.tobytes()


@kernel
def count_cubes(seen):
    barrier()
    seen[absolute_position()] = cube_count(0).to(uint32)
    barrier()


def test_the_word_is_the_last_parameter_of_a_launch_of_any_axes():
    build = Build(count_cubes, (Buffer(uint32),), cube=(2, 1, 1))
    launch = Launch(build, (3, 1, 1), (Output(),)).guarded()
    assert launch.arguments == (Output(), Guard())
    assert launch.build.guarded
    assert launch.build.signature == (Buffer(uint32), GUARD)
    counts = (3, 1, 1)
    folded = replace(build, folded=True, signature=(*build.signature, COUNT, COUNT, COUNT))
    for one, rest in ((build, ()), (folded, counts)):
        made = verify(Launch(one, counts, ()).guarded().build.kernel())
        for word, wanted in ((0, 3), (1, 0), (1 << 31, 0)):
            seen = np.zeros(6, np.uint32)
            run_on_lanes(made, counts, [seen, *rest, np.array([word], np.uint32)])
            assert (seen == wanted).all()
