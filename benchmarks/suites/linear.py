"""Linear layers with weights that do not change: float32, bfloat16 and int8 with int32 sums."""

from typing import Any

import numpy as np

from harness import Case
from suites._operations import Array, library, normal, operation

SHAPES = ((128, 768, 768), (128, 768, 3072), (128, 3072, 768), (1024, 768, 3072))


def cases(device: str) -> list[Case]:
    return [
        case
        for m, k, n in SHAPES
        for case in (
            _float(device, m, k, n),
            _bfloat16(device, m, k, n),
            _int8(device, m, k, n),
        )
    ]


def _float(device: str, m: int, k: int, n: int) -> Case:
    return operation(
        device,
        f"linear {m}x{k}->{n} float32",
        normal((m, k), (n, k), (n,)),
        lambda x, w, b: x @ w.T + b,
        torch=_torch_linear,
        jax=lambda x, w, b: x @ w.T + b,
        relative=1e-4,
    )


def _torch_linear(x: Any, w: Any, b: Any) -> Any:
    torch = library("torch")
    return torch.nn.functional.linear(x, w, b)


def _bfloat16(device: str, m: int, k: int, n: int) -> Case:
    import ml_dtypes

    def torch_linear(x: Any, w: Any) -> Any:
        torch = library("torch")
        halves = [t.view(torch.bfloat16) for t in (x, w)]
        return torch.nn.functional.linear(*halves)

    make = normal((m, k), (n, k), dtype=ml_dtypes.bfloat16)
    case = operation(
        device, f"linear {m}x{k}->{n} bfloat16", make, lambda x, w: x @ w.T, relative=0.02
    )
    from suites._operations import torch_call

    # torch reads no bfloat16 of NumPy; it gets the bits.
    case.peers["torch"] = lambda: torch_call(  # type: ignore[index]
        torch_linear, [a.view(np.int16) for a in make()]
    )
    return case


def _int8(device: str, m: int, k: int, n: int) -> Case:
    def make() -> list[Array]:
        generator = np.random.default_rng(0)
        return [generator.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (n, k))]

    def ours(x: Any, w: Any) -> Any:
        import calor
        from calor.ops.contraction import dot_general

        return dot_general(x, w, contract=((1,), (1,)), batch=((), ()), dtype=calor.int32)

    def torch_product(x: Any, w: Any) -> Any:
        torch = library("torch")
        return torch._int_mm(x, w.T)

    return operation(device, f"linear {m}x{k}->{n} int8", make, ours, torch=torch_product)
