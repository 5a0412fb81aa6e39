"""Single elementwise ops from a thousand to ten million elements: bound, and as users type them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from harness import Case
from suites._operations import Array, library, nearly, operation, torch_call

_COUNTS = (10**3, 10**4, 10**5, 10**6, 10**7)
# Name: calor's and torch's function by name, NumPy's, and how many operands.
_OPS: dict[str, tuple[str, Callable[..., Any], int]] = {
    "add": ("add", np.add, 2),
    "mul": ("multiply", np.multiply, 2),
    "div": ("divide", np.divide, 2),
    "maximum": ("maximum", np.maximum, 2),
    "sqrt": ("sqrt", np.sqrt, 1),
    "exp": ("exp", np.exp, 1),
    "log": ("log", np.log, 1),
    "sin": ("sin", np.sin, 1),
    "tanh": ("tanh", np.tanh, 1),
    "sigmoid": ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), 1),
    "pow": ("pow", np.power, 2),
}


def cases(device: str) -> list[Case]:
    return [
        case
        for n in _COUNTS
        for name in _OPS
        for case in (_bound(device, name, n), _typed(device, name, n))
    ]


def _positive(n: int, operands: int) -> Callable[[], list[Array]]:
    def make() -> list[Array]:
        generator = np.random.default_rng(0)
        return [generator.random(n, np.float32) + 0.25 for _ in range(operands)]

    return make


def _function(name: str) -> Callable[..., Any]:
    def call(*x: Any) -> Any:
        import calor

        if name == "sigmoid":
            return x[0].sigmoid()
        return getattr(calor, name)(*x)

    return call


def _torch(name: str) -> Callable[..., Any]:
    def call(*x: Any) -> Any:
        torch = library("torch")
        return getattr(torch, name)(*x)

    return call


def _bound(device: str, name: str, n: int) -> Case:
    full, numpy, operands = _OPS[name]
    return operation(
        device,
        f"{name} {n}",
        _positive(n, operands),
        _function(full),
        torch=_torch(full),
        numpy=numpy,
        relative=2e-6,
    )


def _typed(device: str, name: str, n: int) -> Case:
    """Return the case without jit: recorded, and looked at by ``calor.eval``."""
    full, _, operands = _OPS[name]
    make = _positive(n, operands)

    def ours() -> Callable[[], Any]:
        import calor

        function = _function(full)
        with calor.device(device):
            tensors = [calor.asarray(a) for a in make()]

        def call() -> Any:
            y = function(*tensors)
            calor.eval(y)
            return y

        return call

    return Case(
        f"{name} {n} unjitted",
        ours=ours,
        peers={"torch": lambda: torch_call(_torch(full), make())},
        check=nearly(2e-6),
    )
