"""Cases that are one function of arrays, written once per library."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from harness import Case
from harness.cases import Call, as_array

Array = np.ndarray[Any, Any]
# Numbers that are compared at a time.
_PART = 1 << 16
Function = Callable[..., Any]


def library(name: str) -> Any:
    """Return a module that only the runs beside it have."""
    return importlib.import_module(name)


def nearly(relative: float) -> Callable[[Any, Any], None]:
    """Return a check: results are equal within a part of the largest number in them."""

    def check(ours: Any, theirs: Any) -> None:
        if isinstance(ours, tuple | list):
            for mine, yours in zip(ours, theirs, strict=True):
                check(mine, yours)
            return
        a, b = on_host(ours), on_host(theirs)
        assert a.shape == b.shape, f"shapes {a.shape} and {b.shape}"
        apart, largest = farthest(a.reshape(-1), b.reshape(-1))
        assert apart <= relative * max(largest, 1e-30), f"{apart} apart of {largest}"

    return check


def farthest(a: Array, b: Array) -> tuple[float, float]:
    """Return how far numbers are apart at most, and the largest of the second; NaN if one is.

    It is computed in float64, part by part: whole results of that type are slow to come by.
    """
    apart = largest = np.float64(0)
    for start in range(0, a.size, _PART):
        mine, yours = (x[start : start + _PART].astype(np.float64) for x in (a, b))
        largest = np.maximum(largest, np.abs(yours).max())
        apart = np.maximum(apart, np.abs(mine - yours).max())
    return float(apart), float(largest)


def on_host(value: Any) -> Array:
    """Return a result on the host; NumPy has no bfloat16 for torch's."""
    if type(value).__module__.startswith("torch"):
        value = value.detach()
        value = value.float() if value.dtype == library("torch").bfloat16 else value
    return as_array(value)


def calor_call(device: str, function: Function, arrays: Sequence[Array], bound: bool) -> Call:
    """Return a call of a jitted function on a device, with its arguments bound or given."""
    import calor

    with calor.device(device):
        tensors = [calor.asarray(a) for a in arrays]
        calor.eval(*tensors)
        jitted = calor.jit(function)
        jitted(*tensors)
    if bound:
        call: Call = jitted.bind(*tensors)
        # The second call may still prepare what does not change.
        call()
    else:
        call = lambda: jitted(*tensors)  # noqa: E731 - the shortest there is
    return call if device.partition(":")[0] in ("cpu", "numpy") else _waiting(call, device)


def _waiting(call: Call, device: str) -> Call:
    import calor

    def waited() -> Any:
        made = call()
        calor.synchronize(device)
        return made

    return waited


def torch_call(function: Function, arrays: Sequence[Array]) -> Call:
    """Return a call of an eager function of torch, without gradients."""
    torch = library("torch")
    tensors = [torch.from_numpy(np.ascontiguousarray(a)) for a in arrays]

    def call() -> Any:
        with torch.no_grad():
            return function(*tensors)

    return call


def jax_call(function: Function, arrays: Sequence[Array]) -> Call:
    """Return a call of a jitted function of jax that waits for its result."""
    jax = library("jax")
    tensors = [jax.numpy.asarray(a) for a in arrays]
    jitted = jax.jit(function)
    return lambda: jax.block_until_ready(jitted(*tensors))


def operation(
    device: str,
    name: str,
    arrays: Callable[[], Sequence[Array]],
    ours: Function,
    *,
    torch: Function | None = None,
    jax: Function | None = None,
    numpy: Function | None = None,
    relative: float = 1e-5,
    bound: bool = True,
    floor: float | None = None,
) -> Case:
    """Return a case: the same arrays through calor's function and each peer's.

    ``floor``: seconds that the machine's ceilings allow.
    """
    peers: dict[str, Callable[[], Call]] = {}
    if torch is not None:
        peers["torch"] = lambda: torch_call(torch, arrays())
    if jax is not None:
        peers["jax"] = lambda: jax_call(jax, arrays())
    if numpy is not None:
        given = numpy

        def numpy_peer() -> Call:
            held = arrays()
            return lambda: given(*held)

        peers["numpy"] = numpy_peer
    found: Mapping[str, Callable[[], Call]] = peers
    return Case(
        name,
        ours=lambda: calor_call(device, ours, arrays(), bound),
        peers=found,
        check=nearly(relative),
        floor=None if floor is None else lambda: floor,
    )


def normal(*shapes: tuple[int, ...], dtype: Any = np.float32) -> Callable[[], list[Array]]:
    """Return what makes normally distributed arrays, the same at each call."""

    def make() -> list[Array]:
        generator = np.random.default_rng(0)
        return [generator.standard_normal(shape, np.float32).astype(dtype) for shape in shapes]

    return make
