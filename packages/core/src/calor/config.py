"""Settings read once from the environment; tests change the attributes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final


def _flag(name: str, default: bool) -> bool:
    text = os.environ.get(name)
    return default if text is None else text.strip().lower() not in ("", "0", "false", "no", "off")


def _number(name: str, default: int) -> int:
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name}={text!r} is not a whole number") from None


def _named(name: str, values: dict[str, str]) -> str:
    """Return what a variable's text stands for; the first is the default."""
    text = os.environ.get(name)
    if not text:
        return next(iter(values.values()))
    if text not in values:
        raise ValueError(f"{name}={text!r} is none of {', '.join(values)}")
    return values[text]


# How exactly float32 products may be said to be computed, and the level that a name stands for.
# Levels are compared by identity. Exact ones round no factors.
HIGHEST: Final = "highest"
DIRECT: Final = "direct"
EXACT: Final = frozenset((HIGHEST, DIRECT))
PRECISIONS: Final = {"highest": HIGHEST, "direct": DIRECT, "high": "high", "tf32": "high"}
# What a write to a view does, beside warning; compared by identity.
WARN: Final = "warn"
STRICT: Final = "strict"
SHARED: Final = "shared"
VIEWS: Final = {"warn": WARN, "strict": STRICT, "shared": SHARED}
# The dtypes of real numbers that nothing else decides; compared by identity.
FLOATS: Final = {name: name for name in ("float32", "float64", "bfloat16", "float16")}


# What is looked for in the result of each op: nothing, both, or NaN alone.
NANS_AND_INFINITIES: Final = "all"
NANS_ALONE: Final = "nan"
_NANS: Final = {"0": "", "1": NANS_AND_INFINITIES, "nan": NANS_ALONE}


@dataclass(slots=True)
class Config:
    """The settings of the process.

    Attributes
    ----------
    jit : bool
        False runs jitted functions as plain Python (``CALOR_JIT=0``).
    eager : bool
        True computes each op when it is recorded (``CALOR_EAGER=1``).
    debug : bool
        True keeps the user's line with each op (``CALOR_DEBUG=1``).
    nans : str
        What in the results of each op is an error (``CALOR_DEBUG_NANS``): nothing if it is empty,
        "all" for NaN and infinities, "nan". Ops are then eager and functions are not jitted.
    device : str or None
        The default device (``CALOR_DEVICE``).
    matmul_precision : str
        The precision of float32 products (``CALOR_MATMUL_PRECISION``); "high" permits TF32,
        "direct" forbids convolutions by transformed tiles.
    default_dtype : str
        The dtype of floating numbers that no operand decides (``CALOR_DEFAULT_DTYPE``).
    views : str
        What a write to a slice or reshape does (``CALOR_VIEWS``): warn, strict or shared.
    trace_nodes : int
        The most operations that are pending in a trace (``CALOR_TRACE_NODES``).
    trace_bytes : int
        The most bytes that they would make (``CALOR_TRACE_BYTES``).
    """

    jit: bool = field(default_factory=lambda: _flag("CALOR_JIT", True))
    eager: bool = field(default_factory=lambda: _flag("CALOR_EAGER", False))
    debug: bool = field(default_factory=lambda: _flag("CALOR_DEBUG", False))
    nans: str = field(default_factory=lambda: _named("CALOR_DEBUG_NANS", _NANS))
    device: str | None = field(default_factory=lambda: os.environ.get("CALOR_DEVICE") or None)
    matmul_precision: str = field(
        default_factory=lambda: _named("CALOR_MATMUL_PRECISION", PRECISIONS)
    )
    default_dtype: str = field(default_factory=lambda: _named("CALOR_DEFAULT_DTYPE", FLOATS))
    views: str = field(default_factory=lambda: _named("CALOR_VIEWS", VIEWS))
    trace_nodes: int = field(default_factory=lambda: _number("CALOR_TRACE_NODES", 2048))
    trace_bytes: int = field(default_factory=lambda: _number("CALOR_TRACE_BYTES", 1 << 30))

    def __post_init__(self) -> None:
        if self.nans:
            self.eager, self.jit = True, False


config = Config()
