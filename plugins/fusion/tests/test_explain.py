"""Does the explanation say what is joined, and why the rest is not?"""

import pytest

import calor
from calor.backends.device import device_of
from calor.errors import UnsupportedError
from calor_fusion import explain
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.matmul import ProductFuser
from calor_kernel.runtime.backend import KernelBackend


@pytest.fixture
def device():
    fusers = (ElementwiseFuser(), ProductFuser())
    return device_of(KernelBackend("lanes", lambda index: LanesDevice(ONE_UNIT), fusers=fusers), 0)


def explained(device, function, *shapes):
    with calor.device(device):
        return explain(function, *(calor.zeros(shape) for shape in shapes))


def test_what_is_joined(device):
    found = explained(device, calor.jit(lambda x, w: calor.relu(x @ w)), (4, 8), (8, 6))
    (piece,) = found.pieces
    assert (piece.ops, piece.launches) == (("dot_general", "relu"), 1)
    assert not found.apart
    assert str(found).startswith(
        "1 pieces of work, 1 launches\n  dot_general + relu -> float32[4, 6]"
    )


# A function of a product and further operands, their shapes, and why it is not joined.
REASONS = [
    (lambda y: y + y[::-1], [], "it reads the product in another order of elements"),
    (lambda y: calor.exp(y[:2]), [], "slice is not elementwise, or moves elements"),
    (lambda y: calor.sum(y), [], "sum is not elementwise, or moves elements"),
    (
        lambda y, r: y.reshape(2, 2, 6) + r,
        [(1, 2, 6)],
        "a further value has no stride along rows or columns of the product",
    ),
    (
        lambda y, r: y / calor.sum(y, axis=1, keepdims=True),
        [(4, 6)],
        "what it reads depends on the product by another way",
    ),
]


@pytest.mark.parametrize(("function", "shapes", "reason"), REASONS)
def test_why_not(device, function, shapes, reason):
    found = explained(device, lambda x, w, *rest: function(x @ w, *rest), (4, 8), (8, 6), *shapes)
    assert reason in [one.reason for one in found.apart]
    assert reason in str(found)


def test_a_device_without_kernels():
    with calor.device("numpy"), pytest.raises(UnsupportedError, match="nothing is fused on it"):
        explain(calor.exp, calor.ones(2))


def test_loops_and_branches_are_explained_with_their_steps(device):
    def function(x):
        y = calor.while_loop(lambda c: calor.sum(c) < 9, lambda c: calor.tanh(c) + 1, x)
        return calor.cond(y[0, 0] > 0, lambda: y @ y, lambda: calor.exp(y)) * 2

    found = explained(device, function, (4, 4))
    loop, branch = found.flows
    assert (loop.op, loop.by_host) == ("while_loop", "the device has no loops of its own")
    assert [part.pieces[-1].ops for part in loop.parts] == [("less",), ("tanh", "add")]
    assert (branch.op, branch.by_host) == ("cond", "it reads the predicate")
    assert {part.pieces[0].ops[0] for part in branch.parts} == {"dot_general", "exp"}
    assert "while_loop, step by step, by the host: the device has no loops" in str(found)


def test_scans_say_why_they_are_not_one_launch(device):
    def function(x, w):
        rows = calor.stack([x, x])
        return calor.scan(lambda h, row: (calor.tanh(h @ w) @ w, row), x, rows)[0]

    (found,) = explained(device, function, (4, 4), (4, 4)).flows
    assert found.op == "scan"
    assert "not one launch: the device has no" in str(found)
