"""Right calls of the public functions, and values of a wrong kind or size for each argument.

Most right calls are those that the conformance suite records, whose operands are drawn. Others are
written here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache, partial
from math import inf, nan, prod
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
import calor_linalg as linalg
from calor.nn import functional
from calor_conformance.rows.functions.comparing import quiet, tensors
from calor_conformance.rows.functions.drawing import Arguments, source
from calor_conformance.rows.recorded.points import operands
from calor_conformance.rows.recorded.subjects import subjects

_DRAWS: Final = 8
# Functions of the host that take files, devices or limits.
_PACKAGES: Final = {
    "calor": calor, "calor.random": calor.random, "calor_numerics": calor,
    "calor_numerics.random": calor.random, "calor_linalg": linalg, "calor_special": calor.special,
    "calor_nn.functional": functional, "calor_nn.init": calor.nn.init,
    "calor_numerics.signal": calor.signal, "calor_numerics.signal.windows": calor.signal.windows,
}  # fmt: skip


def _floats(*shape: int) -> np.ndarray[Any, Any]:
    return (np.arange(prod(shape), dtype=np.float32) * 0.37 % 1 + 0.1).reshape(shape)


_MATRIX: Final = (_floats(3, 3) @ _floats(3, 3).T + np.eye(3) * 3).astype(np.float32)
_FOURIER = ("fft", "ifft", "fftn", "ifftn", "rfft", "irfft", "rfftn", "irfftn", "hfft", "ihfft",
            "fftshift", "ifftshift")  # fmt: skip
_OF_MATRICES = ("cholesky_ex", "eig", "eigh", "eigvals", "geqrf", "ldl_factor", "lu", "lu_factor",
                "qr", "svd", "svd_lowrank", "pca_lowrank", "cholesky_inverse")  # fmt: skip


def _written() -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """Yield functions with the positional arguments of a right call."""
    fft: Any = calor.fft
    x = _floats(2, 3)
    for name in _FOURIER:
        yield f"calor.fft.{name}", getattr(fft, name), (_floats(4, 6),)
    for name in _OF_MATRICES:
        yield f"calor_linalg.{name}", getattr(linalg, name), (_MATRIX,)
    for name in ("dropout", "alpha_dropout", "gumbel_softmax", "rrelu"):
        yield f"calor_nn.functional.{name}", getattr(functional, name), (x,)
    images = _floats(1, 2, 6, 6)
    matrix = calor.asarray(_MATRIX, device="numpy")
    factors, symmetric = linalg.lu_factor(matrix), linalg.ldl_factor(matrix)
    some: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (fft.fftfreq, (6,)), (fft.rfftfreq, (6,)), (calor.asarray, (x,)),
        (calor.astype, (x, "int32")), (calor.can_cast, ("float32", "float64")),
        (calor.empty, ((2, 3),)), (calor.empty_like, (x,)), (calor.finfo, ("float32",)),
        (calor.full, ((2, 3), 1.0)), (calor.full_like, (x, 1.0)), (calor.iinfo, ("int32",)),
        (calor.isdtype, ("int32", "integral")), (calor.result_type, ("int32", x)),
        (calor.to_device, (x, "numpy")), (calor.from_dlpack, (x,)), (calor.random.seed, (3,)),
        (linalg.cholesky_solve, (_floats(3, 2), _MATRIX)), (linalg.lstsq, (x.T, x.T)),
        (linalg.householder_product, (_floats(4, 3), _floats(3))),
        (linalg.ormqr, (_floats(4, 3), _floats(3), _floats(4, 2))),
        (linalg.lu_solve, (factors, _floats(3, 2))), (linalg.lu_unpack, (factors,)),
        (linalg.ldl_solve, (symmetric, _floats(3, 2))),
        (functional.channel_dropout, (images,)), (functional.feature_alpha_dropout, (images,)),
        (functional.adaptive_max_pool2d, (images, (2, 3))),
        (functional.adaptive_max_pool3d, (images[None], 2)),
        (functional.batch_norm, (_floats(3, 4), _floats(4), _floats(4) + 1)),
        (functional.triplet_margin_with_distance_loss, (x, x + 1, x - 1)),
    ]  # fmt: skip
    for function, given in some:
        yield f"written.{function.__name__}", function, given


@cache
def right_calls() -> dict[str, tuple[Callable[..., Any], Arguments]]:
    """Return functions as users reach them, each with the arguments of a right call."""
    made: dict[str, tuple[Callable[..., Any], Arguments]] = {}
    for label, subject in subjects().items():
        package, _, name = label.partition("-")[0].partition("(")[0].rpartition(".")
        function = getattr(_PACKAGES.get(package), name, None)
        # Points are far out, where an order of a polynomial is a number of steps.
        draw = partial(_plain, function) if subject.pointwise else subject.draw
        given = None if function is None else _drawn(label, draw, function)
        if function is None or given is None:
            continue
        if f"{package}.{name}" not in made and "Tensor" not in package:
            made[f"{package}.{name}"] = function, given
    for label, function, positional in _written():
        made[label] = function, ([*positional], {})
    return made


def _plain(function: Any, rng: Any) -> Arguments:
    return [_floats(2, 3)] * operands(function), {}


def _drawn(label: str, draw: Callable[..., Arguments], function: Any) -> Arguments | None:
    """Return arguments that a function takes, with operands of some elements."""
    if not inspect.isfunction(function):
        return None
    for number in range(_DRAWS):
        try:
            given = draw(source([crc32(label.encode()), number, 7]))
            arrays = [a for a in given[0] if isinstance(a, np.ndarray)]
            if all(a.size > 1 for a in arrays[:1]):
                called(function, given)
                return given
        except Exception:
            continue
    return None


def called(function: Callable[..., Any], given: Arguments) -> None:
    """Call a function on the device that compiles nothing, and read what it gives."""
    with quiet(), calor.device("numpy"):
        positional = [_tensors(one) for one in given[0]]
        options = {name: _tensors(one) for name, one in given[1].items()}
        for leaf in calor.tree.leaves(function(*positional, **options)):
            if isinstance(leaf, calor.Tensor):
                leaf.numpy()


def _tensors(one: Any) -> Any:
    return one if hasattr(one, "_fields") else tensors(one)


# Of these no function takes any, so its error names the argument.
STRANGE: Final[dict[str, Callable[[], Any]]] = {
    "a text": lambda: "nonsense", "an object": object, "a dictionary": lambda: {1: 2},
    "an array of texts": lambda: np.array(["a"]), "an array of objects": lambda: np.array([{}]),
}  # fmt: skip
WRONG: Final[dict[str, Callable[[], Any]]] = {
    **STRANGE, "None": lambda: None, "-1": lambda: -1, "-99": lambda: -99, "99": lambda: 99,
    "1.5": lambda: 1.5, "NaN": lambda: nan, "infinity": lambda: inf, "True": lambda: True,
    "1j": lambda: 1j, "an empty list": list, "a list": lambda: [1.0, 2.0],
    "a ragged list": lambda: [[1], [1, 2]], "(-1,)": lambda: (-1,), "(0, 0)": lambda: (0, 0),
    "()": tuple, "('a',)": lambda: ("a",), "a function": lambda: max, "a dtype": lambda: np.int32,
    "a 0-d tensor": lambda: calor.asarray(1.0), "an empty tensor": partial(calor.zeros, (0,)),
    "five axes": partial(calor.ones, (1, 2, 1, 2, 1)), "another size": partial(calor.ones, (7,)),
    "truths": partial(calor.ones, (2, 3), dtype="bool"),
    "integers": partial(calor.ones, (2, 3), dtype="int32"),
    "complex numbers": partial(calor.ones, (2, 3), dtype="complex64"),
    "NaNs": partial(calor.full, (2, 3), nan),
    "storage": lambda: calor.ones((2, 3)).astype("float8_e4m3fn"),
}  # fmt: skip


# What is asked of arguments that a right call leaves out.
_LATE: Final = ("a text", "an object", "None", "-1", "99", "NaN", "(0, 0)", "an empty tensor")


def spoilt(label: str) -> Iterator[tuple[str, str, Arguments]]:
    """Yield calls with one argument off: its name, what is wrong, and the arguments."""
    with calor.device("numpy"):
        yield from _spoilt(label)


def _spoilt(label: str) -> Iterator[tuple[str, str, Arguments]]:
    function, (positional, options) = right_calls()[label]
    parameters = list(inspect.signature(function).parameters.values())
    for place, p in enumerate(parameters):
        if p.kind is p.VAR_KEYWORD:
            continue
        for name, make in WRONG.items():
            if place < len(positional):
                given = [*positional]
                given[place] = make()
                yield p.name, name, (given, dict(options))
            elif p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) and name in _LATE:
                yield p.name, name, ([*positional], {**options, p.name: make()})
