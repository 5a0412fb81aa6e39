"""A drawn case, its text that repeats it, and the work that it stands for."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from random import Random
from typing import Any

Shape = tuple[int, ...]
Value = int | float | str | Shape
Parameters = dict[str, Value]
Function = Callable[..., Any]

DTYPES = {"f32": "float32", "tf32": "float32", "bf16": "bfloat16", "f16": "float16"}
_SIZES = re.compile(r"\d+(x\d+)+x?|\d*x")
_NUMBER = re.compile(r"-?\d+")
_FRACTION = re.compile(r"-?\d*\.\d+(e-?\d+)?")


@dataclass(frozen=True)
class Operand:
    """An operand that both libraries get.

    Its elements are normal numbers of the case's dtype, ``kind`` "float"; of float32 whatever the
    case's dtype is, "float32"; or int64 from 0 up to ``below``, "index". ``positive`` numbers are
    absolute values. A ``weight`` stays the same from call to call in inference. ``fixed``: no
    gradient is computed. ``read``: how many elements are read, where that is not all.
    """

    shape: Shape
    kind: str = "float"
    below: int = 0
    positive: bool = False
    weight: bool = False
    fixed: bool = False
    read: int | None = None

    @property
    def differentiable(self) -> bool:
        """Whether the gradient of this operand is computed."""
        return self.kind != "index" and not self.fixed

    def nbytes(self, dtype: str) -> int:
        """Return the bytes in a case of this dtype."""
        size = {"index": 8, "float32": 4}.get(self.kind, 4 if DTYPES[dtype] == "float32" else 2)
        return prod(self.shape) * size


@dataclass(frozen=True)
class Work:
    """What a case computes.

    ``ours`` and ``theirs`` take the operands, and give a result of shape ``made``, or a list of
    results in a case without gradients. ``flops`` are those of the forward pass. ``depth`` is the
    number of terms in a sum of the results. ``checked`` says how results are compared: "near",
    "picks" (indices: the picked numbers of the first operand along the last axis are equal) or
    "none" for random results. ``uncaptured``: why no CUDA graph holds the peer's calls, if so.
    """

    operands: tuple[Operand, ...]
    ours: Function
    theirs: Function
    made: Shape
    flops: float = 0.0
    depth: int = 1
    checked: str = "near"
    uncaptured: str = ""

    def nbytes(self, dtype: str, gradient: bool) -> int:
        """Return the bytes of operands and results."""
        return sum(o.nbytes(dtype) for o in self.operands) + self._written(dtype, gradient)

    def traffic(self, dtype: str, gradient: bool) -> int:
        """Return the bytes that are read and written at least, each counted once."""
        read = [
            o.nbytes(dtype) * min(1.0, 1.0 if o.read is None else o.read / max(prod(o.shape), 1))
            for o in self.operands
        ]
        return int(sum(read)) + self._written(dtype, gradient)

    def _written(self, dtype: str, gradient: bool) -> int:
        result = Operand(self.made).nbytes(dtype)
        gradients = sum(o.nbytes(dtype) for o in self.operands if o.differentiable)
        return result + (result + gradients if gradient else 0)


@dataclass(frozen=True)
class Family:
    """A kind of operation: how often models use it, and how its cases are drawn.

    ``draw(random)`` returns parameters; ``work(parameters)`` the work. Parameters named in
    ``counts`` may be halved where the case is too large for a device: batches, tokens.
    """

    name: str
    weight: float
    draw: Callable[[Random], Parameters]
    work: Callable[[Parameters], Work]
    counts: tuple[str, ...] = ()
    gradient: float = 0.5


@dataclass(frozen=True)
class Sample:
    """A drawn case: a family, its parameters, a dtype, and whether gradients are computed too."""

    family: str
    dtype: str
    gradient: bool
    parameters: Mapping[str, Value] = field(hash=False)

    def __str__(self) -> str:
        given = " ".join(f"{name}={_text(value)}" for name, value in self.parameters.items())
        direction = "gradient" if self.gradient else "forward"
        return f"{self.family} {self.dtype} {direction} {given}".rstrip()

    def with_dtypes(self, known: tuple[str, ...]) -> "Sample":
        """Return the sample in a known dtype: its own, or the first."""
        return self if self.dtype in known else replace(self, dtype=known[0])


def sample_of(line: str) -> Sample:
    """Return the sample of a text, the inverse of ``str``; ValueError if it is none."""
    family, dtype, direction, *given = [*line.split(), "", "", ""][: max(3, len(line.split()))]
    if dtype not in DTYPES or direction not in ("forward", "gradient"):
        known = ", ".join(DTYPES)
        raise ValueError(f"{line!r} is no case: FAMILY, one of {known}, forward or gradient, ...")
    pairs = [text.partition("=") for text in given]
    return Sample(family, dtype, direction == "gradient", {n: _value(v) for n, _, v in pairs})


def _text(value: Value) -> str:
    if isinstance(value, tuple):
        # One size has an x behind it, and none is an x alone.
        return "x".join(map(str, value)) + ("x" if len(value) < 2 else "")
    return str(value)


def _value(text: str) -> Value:
    if _SIZES.fullmatch(text):
        return tuple(int(part) for part in text.split("x") if part)
    if _NUMBER.fullmatch(text):
        return int(text)
    return float(text) if _FRACTION.fullmatch(text) else text
