"""Complex numbers as pairs of real tensors, and Fourier transforms as DFT.

Requirements: ONNX has no complex arithmetic, so the writer keeps a pair of names for a complex
value. Ops that move or add elements are written for each part, others by their definition in parts.
Inputs and outputs of a model are real.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from calor.dtypes import DType, bool_, int64, real_of
from calor.ops import elementwise as e
from calor.ops.contraction import dot_general
from calor.ops.movement import fill
from calor_onnx.exporting.errors import Refused
from calor_onnx.exporting.pairs import Pair, number, pair, parts
from calor_onnx.exporting.program import Step, Value
from calor_onnx.exporting.sizes import Dimension, Size
from calor_onnx.exporting.writer import Writer

# Ops that apply to each part separately.
_PARTWISE: Final = frozenset(
    {
        "add", "sub", "neg", "sum", "reshape", "permute", "expand", "slice", "flip", "pad",
        "concat", "where", "gather", "gather_nd", "take_along", "dynamic_slice",
        "dynamic_update_slice", "stop_gradient", "barrier", "cumsum",
    }
)  # fmt: skip


def is_complex(step: Step) -> bool:
    """Return whether a step has complex operands or results."""
    return any(v.dtype.is_complex for v in (*step.takes, *step.gives))


def write_complex(
    w: Writer,
    step: Step,
    given: Sequence[str],
    row: Callable[[Step, Sequence[str]], list[str]],
    define: Callable[[Callable[..., Any]], list[str]],
) -> list[str] | None:
    """Write a step on complex numbers; None if its own definition applies.

    ``row`` writes a step on real numbers, ``define`` a function instead of the step.
    """
    name = step.op.name
    if name in _PARTWISE:
        types = {k: real_of(v) for k, v in step.attributes.items() if _is_complex_type(v)}
        real = replace(
            step,
            attributes={**step.attributes, **types},
            takes=_real(step.takes),
            gives=_real(step.gives),
        )
        made = [row(real, [_part(w, x, i) for x in given]) for i in (0, 1)]
        return [pair(w, re, im) for re, im in zip(*made, strict=True)]
    if name in _ROWS:
        return [_ROWS[name](w, step, *given)]
    if name in _DEFINITIONS:
        return define(_DEFINITIONS[name])
    if step.op.decompose is not None:
        return None
    raise Refused(
        f"ONNX has no complex arithmetic, and {name} has no definition by real parts; compute it "
        f"from x.real and x.imag"
    )


def _is_complex_type(value: Any) -> bool:
    return isinstance(value, DType) and value.is_complex


def _real(values: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(
        Value(v.shape, real_of(v.dtype)) if v.dtype.is_complex else v for v in values
    )  # fmt: skip


def _part(w: Writer, name: str, which: int) -> str:
    return parts(w, name)[which] if w.type_of(name).is_complex else name


# Ops with one complex operand.


def _cast(w: Writer, step: Step, x: str) -> str:
    dtype = step.gives[0].dtype
    if dtype is bool_:
        zero = w.constant(0, w.type_of(parts(w, x)[0]))
        none = [w.call("Equal", part, zero, result=bool_) for part in parts(w, x)]
        return w.call("Not", w.call("And", *none))
    if not dtype.is_complex:
        return w.cast(parts(w, x)[0], dtype)
    kind = real_of(dtype)
    if w.type_of(x).is_complex:
        return pair(w, *(w.cast(part, kind) for part in parts(w, x)))
    return pair(w, w.cast(x, kind), w.broadcast(w.constant(0, kind), step.gives[0].shape))


def _full(w: Writer, step: Step) -> str:
    made = parts(w, number(w, step.attributes["value"], step.gives[0].dtype))
    return pair(w, *(w.broadcast(part, step.gives[0].shape) for part in made))


def _constant(w: Writer, step: Step) -> str:
    return w.constant(step.attributes["array"].array, step.gives[0].dtype)


def _join(w: Writer, step: Step, re: str, im: str) -> str:
    return pair(w, re, im)


def _conj(w: Writer, step: Step, x: str) -> str:
    re, im = parts(w, x)
    return pair(w, re, w.call("Neg", im))


def _both(w: Writer, step: Step, a: str, b: str) -> str:
    one, other = parts(w, a), parts(w, b)
    re, im = (w.call("Equal", one[i], other[i], result=bool_) for i in (0, 1))
    same = w.call("And", re, im)
    return same if step.op.name == "equal" else w.call("Not", same)


# Fourier transforms.


def _fft(w: Writer, step: Step, x: str) -> str:
    a = step.attributes
    axes, kind = a["axes"], a["kind"]
    shape = step.takes[0].shape
    if kind in ("forward", "inverse"):
        return pair(w, *_transformed(w, parts(w, x), shape, axes, inverse=kind == "inverse"))
    if kind == "r2c":
        made = _one_sided(w, x, len(shape), axes[-1])
        return pair(w, *_transformed(w, made, shape, axes[:-1], inverse=False))
    made = _transformed(w, parts(w, x), shape, axes[:-1], inverse=True)
    whole = _completed(w, made, axes[-1], a["length"], len(shape))
    full = tuple(a["length"] if i == axes[-1] else n for i, n in enumerate(shape))
    return _transformed(w, whole, full, axes[-1:], inverse=True)[0]


def _transformed(
    w: Writer, x: Pair, shape: Sequence[Dimension], axes: Sequence[int], *, inverse: bool
) -> Pair:
    """Return the transform over axes, unscaled in both directions like calor's."""
    if not axes:
        return x
    rank = len(shape)
    dtype = w.type_of(x[0])
    last = w.integers([rank])
    columns = [w.emit("Unsqueeze", [part, last], (dtype,))[0] for part in x]
    made = w.emit("Concat", columns, (dtype,), axis=rank)[0]
    for axis in axes:
        made = _dft(w, made, rank, axis, inverse=inverse)
    re, im = (_taken(w, made, rank, i) for i in (0, 1))
    if not inverse:
        return re, im
    scale = _product(w, [shape[axis] for axis in axes], dtype)
    return w.call("Mul", re, scale), w.call("Mul", im, scale)


def _one_sided(w: Writer, x: str, rank: int, axis: int) -> Pair:
    dtype = w.type_of(x)
    column = w.emit("Unsqueeze", [x, w.integers([rank])], (dtype,))[0]
    made = _dft(w, column, rank, axis, onesided=True)
    return _taken(w, made, rank, 0), _taken(w, made, rank, 1)


def _dft(
    w: Writer, x: str, rank: int, axis: int, *, inverse: bool = False, onesided: bool = False
) -> str:
    """Return the transform along an axis of a tensor with the parts on its last axis."""
    dtype = w.type_of(x)
    # ONNX Runtime's kernel requires a batch axis in front.
    front = w.integers([0])
    if rank == 1:
        x = w.emit("Unsqueeze", [x, front], (dtype,))[0]
        axis += 1
    options: dict[str, Any] = {"inverse": int(inverse), "onesided": int(onesided)}
    if w.shared.opset >= 20:
        inputs = [x, "", w.constant(axis, int64)]
    else:
        inputs, options["axis"] = [x], axis
    made = w.emit("DFT", inputs, (dtype,), **options)[0]
    return w.emit("Squeeze", [made, front], (dtype,))[0] if rank == 1 else made


def _taken(w: Writer, x: str, axis: int, place: int) -> str:
    return w.emit("Gather", [x, w.constant(place, int64)], (w.type_of(x),), axis=axis)[0]


def _product(w: Writer, sizes: Sequence[Dimension], dtype: DType) -> str:
    known = [n for n in sizes if not isinstance(n, Size)]
    made = w.constant(float(np.prod([float(n) for n in known])), dtype)
    for size in sizes:
        if isinstance(size, Size):
            made = w.call("Mul", made, w.cast(w.reshape(w.size(size), ()), dtype))
    return made


def _completed(w: Writer, x: Pair, axis: int, length: Any, rank: int) -> Pair:
    """Return all bins of a half spectrum; the missing ones are conjugates."""
    if not isinstance(length, int):
        raise Refused("the length of a real inverse transform depends on a symbolic size")
    bins = length // 2 + 1
    if length == bins:
        return x
    dtype = w.type_of(x[0])
    # Bin n − k is the conjugate of bin k, for k from n − bins down to 1.
    ends = [w.integers([n]) for n in (length - bins, 0, axis, -1)]
    mirrored = [w.emit("Slice", [part, *ends], (dtype,))[0] for part in x]
    mirrored[1] = w.call("Neg", mirrored[1])
    re, im = (
        w.emit("Concat", [a, b], (dtype,), axis=axis)[0] for a, b in zip(x, mirrored, strict=True)
    )
    return re, im


_ROWS: Final[dict[str, Callable[..., str]]] = {
    "cast": _cast,
    "conj": _conj,
    "constant": _constant,
    "equal": _both,
    "fft": _fft,
    "full": _full,
    "imag": lambda w, step, x: parts(w, x)[1],
    "join": _join,
    "not_equal": _both,
    "real": lambda w, step, x: parts(w, x)[0],
}


# Definitions in parts, as functions of tensors.


def _mul(a: Any, b: Any) -> Any:
    p, q, r, s = e.real(a), e.imag(a), e.real(b), e.imag(b)
    return e.join(p * r - q * s, p * s + q * r)


def _div(a: Any, b: Any) -> Any:
    # Smith (1962): scaled by the larger part of the divisor, so that no square overflows.
    p, q, r, s = e.real(a), e.imag(a), e.real(b), e.imag(b)
    flat = e.abs(r) < e.abs(s)
    large, small = e.where(flat, s, r), e.where(flat, r, s)
    ratio = small / large
    below = large + small * ratio
    re = e.where(flat, p * ratio + q, p + q * ratio) / below
    im = e.where(flat, q * ratio - p, q - p * ratio) / below
    return e.join(re, im)


def _exp(x: Any) -> Any:
    size, angle = e.exp(e.real(x)), e.imag(x)
    return e.join(size * e.cos(angle), size * e.sin(angle))


def _log(x: Any) -> Any:
    return e.join(e.log(_abs(x)), e.atan2(e.imag(x), e.real(x)))


def _sqrt(x: Any) -> Any:
    # The larger part has no cancellation; the smaller one follows from it.
    re, im = e.real(x), e.imag(x)
    large = e.sqrt((_abs(x) + e.abs(re)) * 0.5)
    none = e.equal(large, fill(large, 0))
    small = e.where(none, large, e.abs(im) / (e.where(none, fill(large, 1), large) * 2))
    right = re >= 0
    return e.join(
        e.where(right, large, small), e.copysign(e.where(right, small, large), im)
    )  # fmt: skip


def _abs(x: Any) -> Any:
    return e.hypot(e.real(x), e.imag(x))


def _isnan(x: Any) -> Any:
    return e.bit_or(e.isnan(e.real(x)), e.isnan(e.imag(x)))


def _dot(a: Any, b: Any, *, dtype: DType, **attributes: Any) -> Any:
    p, q, r, s = e.real(a), e.imag(a), e.real(b), e.imag(b)

    def dot(x: Any, y: Any) -> Any:
        return dot_general(x, y, dtype=real_of(dtype), **attributes)

    return e.join(dot(p, r) - dot(q, s), dot(p, s) + dot(q, r))


_DEFINITIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": _abs,
    "div": _div,
    "dot_general": _dot,
    "exp": _exp,
    "isnan": _isnan,
    "log": _log,
    "mul": _mul,
    "sqrt": _sqrt,
}

# The ops that can be written for complex numbers.
WRITTEN: Final = _PARTWISE | _ROWS.keys() | _DEFINITIONS.keys()
