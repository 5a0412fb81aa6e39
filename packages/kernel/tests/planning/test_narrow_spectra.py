"""Are transforms of which a part is read, or is not zero, narrowed, with the same numbers?"""

from random import Random

import numpy as np
import pytest

import calor
from calor.graph.interpreter import interpret
from calor.ops.base import table
from calor.ops.movement import expand
from calor.ops.sources import HostArray, constant
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.fft import modes_fuser
from calor_kernel.planning.narrow_spectra import narrow_spectra
from calor_kernel.runtime.backend import KernelBackend

AXES = 3


def _step(random, x):
    """Return what one drawn op makes of a tensor."""
    name = random.choice(["fft", "fft", "many", "pad", "concat", "cut", "scale", "conj", "weights"])
    axis = random.randrange(AXES)
    if name == "fft":
        return random.choice([calor.fft.fft, calor.fft.ifft])(x, axis=axis)
    if name == "many":
        axes = random.sample(range(AXES), 2)
        if random.random() < 0.5:
            return random.choice([calor.fft.fftn, calor.fft.ifftn])(x, axes=axes)
        real = calor.fft.rfftn(calor.real(x), axes=axes)
        return calor.fft.irfftn(real * real, s=[x.shape[a] for a in axes], axes=axes) * (1 + 0.5j)
    if name == "pad":
        width = [(0, 0)] * AXES
        width[axis] = random.randrange(3), random.randrange(1, 4)
        return calor.pad(x, width)
    if name == "concat":
        shape = list(x.shape)
        shape[axis] = random.randrange(1, 4)
        parts = [x, calor.zeros(shape, dtype=x.dtype)]
        return calor.concat(parts[:: random.choice([1, -1])], axis=axis)
    if name == "cut":
        begin = random.randrange(max(1, x.shape[axis] // 2))
        end = random.randrange(begin + 1, x.shape[axis] + 1)
        place = tuple(slice(begin, end) if a == axis else slice(None) for a in range(AXES))
        return x[place]
    if name == "weights":
        shape = [x.shape[axis] if a == axis else 1 for a in range(AXES)]
        numbers = HostArray.of(np.arange(1.0, x.shape[axis] + 1).astype("c16").reshape(shape))
        return x * expand(constant(array=numbers, weak=False), shape=x.shape)
    return calor.conj(x) if name == "conj" else x * random.choice([0.5, -2.0])


def _program(seed):
    random = Random(seed)
    shape = [random.randrange(2, 6) for _ in range(AXES)]

    def run(real, imaginary):
        found, x = [], calor.complex(real, imaginary)
        for _ in range(random.randrange(3, 9)):
            if random.random() < 0.25:
                found.append(_step(random, x) if random.random() < 0.5 else x)
            x = _step(random, x)
        return [x, *found]

    with calor.device("numpy"):
        zeros = calor.zeros(shape, dtype="float64")
        return calor.trace(run, zeros, zeros), shape


def _arrays(shape):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for _ in range(2)]


def _agree(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11 * max(1.0, abs(b).max()))


@pytest.mark.parametrize("seed", range(60))
def test_drawn_programs_have_the_same_numbers(seed):
    graph, shape = _program(seed)
    made = narrow_spectra(graph)
    assert [made.specs[o] for o in made.outputs] == [graph.specs[o] for o in graph.outputs]
    arrays = _arrays(shape)
    _agree(interpret(made, arrays), interpret(graph, arrays))


def _transform(seed):
    """A transform along one axis with a drawn padding, cut and factor."""
    random = Random(seed)
    kind = ("fft", "ifft", "rfft", "irfft")[seed % 4]
    shape, axis = [random.randrange(2, 6) for _ in range(AXES)], random.randrange(AXES)
    length = random.randrange(5, 12)

    def run(real, imaginary):
        x = real if kind == "rfft" else calor.complex(real, imaginary)
        width = [(0, 0)] * AXES
        width[axis] = random.randrange(2), random.randrange(3)
        x = calor.pad(x * 0.5, width)
        y = getattr(calor.fft, kind)(x, axis=axis, n=length) * 3.0
        begin = random.randrange(2)
        place = slice(begin, random.randrange(begin + 1, y.shape[axis] + 1))
        y = y[tuple(place if a == axis else slice(None) for a in range(AXES))]
        return [calor.real(y) * 2.0 if random.random() < 0.5 else y]

    with calor.device("numpy"):
        zeros = calor.zeros(shape, dtype="float64")
        return calor.trace(run, zeros, zeros), shape


@pytest.mark.parametrize("device", [ONE_UNIT, MANY_UNITS], ids=["one unit", "many units"])
@pytest.mark.parametrize("seed", range(12))
def test_products_in_place_of_transforms_have_the_same_numbers(device, seed, monkeypatch):
    monkeypatch.setattr(modes_fuser, "_pays", lambda *given: True)
    graph, shape = _transform(seed)
    backend = KernelBackend("lanes", lambda i: LanesDevice(device), fusers=[ElementwiseFuser()])
    executable = backend.compile(0, graph)
    arrays = _arrays(shape)
    made = executable([backend.upload(0, a) for a in arrays])
    found = [
        np.array(backend.download(0, b, s)) for b, s in zip(made, graph.output_specs, strict=True)
    ]
    _agree(found, interpret(graph, arrays))
    assert [task.op for task in executable.draft.tasks].count(modes_fuser.MODES) == 1


def _operator(modes):
    """A Fourier operator with both corners of low modes, and its gradient."""

    def run(x, a, b):
        y = calor.fft.rfftn(x, axes=(-2, -1))
        w = calor.complex(a, b)
        corners = [
            calor.einsum("bihm,iohm->bohm", part, w)
            for part in (y[:, :, :modes, :modes], y[:, :, -modes:, :modes])
        ]
        height, width = x.shape[2], x.shape[3] // 2 + 1
        between = calor.zeros((*x.shape[:2], height - 2 * modes, modes), dtype=y.dtype)
        low = calor.concat([corners[0], between, corners[1]], axis=2)
        beyond = calor.zeros((*x.shape[:2], height, width - modes), dtype=y.dtype)
        made = calor.concat([low, beyond], axis=3)
        return calor.fft.irfftn(made, s=x.shape[2:], axes=(-2, -1))

    return run


def test_an_operator_transforms_the_modes_that_it_keeps():
    modes, shapes = 3, [(2, 4, 20, 14), (4, 4, 3, 3), (4, 4, 3, 3)]
    run = _operator(modes)

    def gradients(*given):
        return calor.grad(lambda *g: (run(*g) ** 2).sum(), argnums=(0, 1, 2))(*given)

    with calor.device("numpy"):
        graph = calor.trace(gradients, *map(calor.zeros, shapes))
    made = narrow_spectra(graph)
    heights = [n for n in made.nodes if n.op is table()["fft"] and n.attributes["axes"] == (2,)]
    assert heights
    assert all(made.specs[n.inputs[0]].shape[3] == modes for n in heights)


def test_what_is_read_whole_stays():
    with calor.device("numpy"):
        graph = calor.trace(lambda x: calor.fft.fft(x), calor.zeros((3, 8)))
        made = narrow_spectra(graph)
        assert [n.op.name for n in made.nodes] == [n.op.name for n in graph.nodes]
        graph = calor.trace(lambda x: x[1:] * 2, calor.zeros((3, 8)))
        assert narrow_spectra(graph) is graph
