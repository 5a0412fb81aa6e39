"""Are permuted results written in their order, without a copy, and right?"""

import numpy as np
import pytest

import calor
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.planning.dense_results import dense_results
from calor_kernel.runtime.backend import KernelBackend


def _gradients(x, y):
    return calor.grad(lambda a, b: (a.mT @ b.mT).sum(), argnums=(0, 1))(x, y)


def _shared(x, y):
    made = x.mT @ y.mT
    return made, made.mT


def _elementwise(x, y):
    return calor.permute_dims(calor.tanh(x * y[:, :1, :1]) + 1, (2, 0, 1))


CASES = {
    "product": lambda x, y: calor.einsum("bij,bki->bkj", x, y),
    "turned": lambda x, y: (x.mT @ y.mT).mT,
    "gradients": _gradients,
    "elementwise": _elementwise,
    "squares": lambda x, y: ((x.mT * 2) * (x.mT * 2)).mT,
}


def _run(graph, arrays):
    backend = KernelBackend(
        "lanes", lambda i: LanesDevice(MANY_UNITS), fusers=(ElementwiseFuser(),)
    )
    executable = backend.compile(0, graph)
    made = executable([backend.upload(0, a) for a in arrays])
    return [
        np.array(backend.download(0, b, s)) for b, s in zip(made, graph.output_specs, strict=True)
    ]


def _permuted(graph):
    """The results that are permutations of what is computed."""
    made = {o: node for node in graph.nodes for o in node.outputs}
    found = [made[o] for o in graph.outputs if o in made and made[o].op.name == "permute"]
    return sum(made.get(node.inputs[0]) is not None for node in found)


@pytest.mark.parametrize("case", CASES)
def test_permuted_results_are_computed_in_their_order(case):
    function = CASES[case]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in ((2, 3, 5), (2, 4, 3))]
    if case == "elementwise":
        arrays[1] = rng.normal(size=(2, 3, 5)).astype(np.float32)
    with calor.device("numpy"):
        given = [calor.asarray(a) for a in arrays]
        graph = calor.trace(function, *given)
        wanted = function(*given)
    wanted = wanted if isinstance(wanted, list | tuple) else [wanted]
    moved = dense_results(graph)
    assert _permuted(moved) == (case == "squares")
    assert moved.output_specs == graph.output_specs
    for found, right in zip(_run(graph, arrays), wanted, strict=True):
        np.testing.assert_allclose(found, right.numpy(), rtol=1e-5, atol=1e-5)


def test_what_others_read_stays():
    with calor.device("numpy"):
        given = calor.zeros((2, 3, 5)), calor.zeros((2, 4, 3))
        graphs = [
            calor.trace(_shared, *given),
            calor.trace(lambda x, y: calor.permute_dims(x, (1, 0, 2)), *given),
            calor.trace(lambda x, y: (x[:, :1].mT @ y.mT[:, :1]).sum(-1, keepdims=True).mT, *given),
        ]  # fmt: skip
    for graph in graphs:
        assert dense_results(graph) is graph
