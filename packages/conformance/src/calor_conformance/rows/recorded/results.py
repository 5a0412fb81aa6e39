"""What a call gave, as heads and numbers: kinds, shapes, elements, derivatives, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.errors import CalorError, UnsupportedError

from ..functions.comparing import quiet, tensors
from ..functions.drawing import Arguments
from ..language import Array
from .subjects import Subject

# Elements that are kept one by one; those of longer results add up in so many sums.
MOST: Final = 40
_CODES: Final = {"nan": 911.25, "inf": 677.5, "-inf": -655.75}
_RAISED: Final = (
    CalorError, TypeError, ValueError, IndexError, NotImplementedError, OverflowError,
)  # fmt: skip
# Whole numbers beyond this are kept by their remainder.
_WHOLE: Final = 1 << 52
_PRIME: Final = 1_000_003


@dataclass(frozen=True)
class Outcome:
    """What a call gave.

    Parameters
    ----------
    heads : tuple of str
        The dtype and shape of each result, or what stands for one: a text, the name of an error.
    values : ndarray
        The numbers of all results, of shape (n,) and float64.
    """

    heads: tuple[str, ...]
    values: Array = field(repr=False)


def mark(given: Arguments) -> int:
    """Return a number that arguments of other kinds, shapes and whole numbers most likely have not.

    The last bits of floating arrays depend on how this machine's NumPy multiplies matrices.
    """
    made = 0
    for part in _told(given):
        made = crc32(part, made)
    return made


def _told(given: Any) -> Iterator[bytes]:
    if isinstance(given, np.ndarray):
        yield f"{given.dtype} {given.shape}".encode()
        if given.dtype.kind in "biu":
            yield given.tobytes()
    elif isinstance(given, list | tuple):
        for one in given:
            yield from _told(one)
    elif isinstance(given, dict):
        for name in sorted(given):
            yield name.encode()
            yield from _told(given[name])
    else:
        yield repr(given).encode()


def outcome(subject: Subject, given: Arguments, *, slopes: bool) -> Outcome:
    """Call a function, and differentiate a weighted sum of its results if that is asked for.

    Raises
    ------
    UnsupportedError
        If the device has not the dtypes or operations.
    """
    heads: list[str] = []
    values: list[Array] = []
    with quiet():
        try:
            calor.random.seed(5)
            positional, options = _put(given)
            moved = _followed(positional, options, given) if slopes else []
            made = subject.call(*positional, **options)
            # One program computes results and derivatives, since none is read in between.
            _backward(made, moved)
            _add(heads, values, made)
        except UnsupportedError:
            raise
        except _RAISED as error:
            return Outcome((type(error).__name__,), np.zeros(0))
        for one in moved:
            _add(heads, values, calor.zeros_like(one) if one.grad is None else one.grad)
    return Outcome(tuple(heads), np.concatenate([*values, np.zeros(0)]))


def _followed(positional: list[Any], options: dict[str, Any], given: Arguments) -> list[Any]:
    """Let the floating operands require gradients, and return them."""
    every: dict[Any, Any] = {**dict(enumerate(positional)), **options}
    made = [every[place] for place, _ in moving(given)]
    for one in made:
        one.requires_grad = True
    return made


def _backward(made: Any, moved: list[Any]) -> None:
    kept = [t for t in calor.tree.leaves(made) if isinstance(t, calor.Tensor)] if moved else []
    total = sum((_weighed(t) for t in kept if t.dtype.is_inexact), start=calor.zeros(()))
    if total.requires_grad:
        total.backward()


def _put(given: Arguments) -> Arguments:
    positional, options = given
    return [tensors(one) for one in positional], {k: tensors(v) for k, v in options.items()}


def _add(heads: list[str], values: list[Array], made: Any) -> None:
    if isinstance(made, calor.Tensor):
        array = np.asarray(made.numpy())
        heads.append(f"{made.dtype.name}{array.shape}")
        values.append(folded(flat(array)))
    elif isinstance(made, dict):
        for name, one in made.items():
            heads.append(str(name))
            _add(heads, values, one)
    elif isinstance(made, list | tuple):
        heads.append(f"{len(made)} parts")
        for one in made:
            _add(heads, values, one)
    elif isinstance(made, bool | int | float | str) or made is None:
        heads.append(repr(made) if not isinstance(made, float) else "float()")
        values.append(np.array([made] if isinstance(made, float) else [], np.float64))
    elif isinstance(made, np.ndarray):
        _add(heads, values, calor.asarray(made))
    else:
        heads.append(str(made) if isinstance(made, calor.dtypes.DType) else type(made).__name__)


def flat(array: Array) -> Array:
    """Return the numbers of an array one after the other in float64, parts of complex ones too."""
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    line = array.reshape(-1)
    if line.dtype.kind in "iu":
        big = (line > _WHOLE) | (line < -_WHOLE) if line.dtype.itemsize == 8 else None
        if big is not None and big.any():
            return np.where(big, line % _PRIME, line).astype(np.float64)
    return line.astype(np.float64)


def weights(size: int) -> Array:
    """Return the weight of each element of a long result in its sum."""
    return np.asarray(np.cos(np.arange(size) * 0.7) + 1.5)


def folded(line: Array) -> Array:
    """Return numbers, or sums of every so many of them, in which ends have numbers of their own."""
    if line.size <= MOST:
        return line
    nan, up, down = np.isnan(line), np.isposinf(line), np.isneginf(line)
    coded = np.where(nan, _CODES["nan"], np.where(up, _CODES["inf"], line))
    coded = np.where(down, _CODES["-inf"], coded) * weights(line.size)
    return np.bincount(np.arange(line.size) % MOST, coded, MOST)


def moving(given: Arguments) -> list[tuple[int | str, Array]]:
    """Return the arrays by which a call is differentiated, by place or name."""
    every: list[tuple[int | str, Any]] = [*enumerate(given[0]), *given[1].items()]
    kinds = np.float32, np.float64
    return [(k, v) for k, v in every if isinstance(v, np.ndarray) and v.dtype in kinds]


def _weighed(one: Any) -> Any:
    size = int(np.prod(one.shape))
    by = (np.cos(np.arange(size) + 1.0) + 1.25).reshape(one.shape)
    if one.dtype.is_complex:
        return calor.sum(
            (calor.real(one) - 0.5 * calor.imag(one)) * calor.asarray(by, dtype="float32")
        )
    return calor.sum(one.astype("float32") * calor.asarray(by, dtype="float32"))
