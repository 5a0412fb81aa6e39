"""Rows of what the rules refuse: operands, attributes, the error and what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from calor.dtypes import bool_, float32, int64
from calor.errors import ArgumentError, CalorError, DTypeError, ShapeError
from calor.ops.base import find

from ..domains import indices, normal, truth
from ..language import Domain


@dataclass(frozen=True)
class Refusal:
    """One row."""

    op: str
    inputs: tuple[Domain, ...]
    error: type[CalorError]
    match: str
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What is refused, for reports."""
        return f"{self.op}-{self.match.split()[0]}-{'-'.join(str(d.shape) for d in self.inputs)}"

    def call(self, *tensors: Any) -> Any:
        """Record it."""
        run: Callable[..., Any] = find(self.op)
        return run(*tensors, **self.attributes)


def refused(
    op: str, *inputs: Domain, error: type[CalorError] = ShapeError, match: str, **attributes: Any
) -> Refusal:
    """Return a row; ``match`` is the regular expression that the message fits."""
    return Refusal(op, inputs, error, match, attributes)


_CONV: dict[str, Any] = {"stride": (1,), "padding": ((0, 0),), "dilation": (1,), "groups": 1}
_WINDOW: dict[str, Any] = {"window": (2,), "stride": (1,), "padding": ((0, 0),), "dilation": (1,)}
_DOT: dict[str, Any] = {"batch": ((), ()), "dtype": float32}

REFUSALS: list[Refusal] = [
    refused("add", normal(2), normal(3), match=r"float32\[2\] and float32\[3\] differ"),
    refused("add", normal(2), normal(1, 2), match="do not broadcast"),
    refused("where", normal(2), normal(2), normal(2), error=DTypeError, match="bool condition"),
    refused("where", truth(3), normal(2), normal(2), match="condition .* differ in shape"),
    refused("where", truth(2), normal(2), normal(2).of(int64), match="differ"),
    refused("join", normal(2), normal(3), error=DTypeError, match="two float32 or two float64"),
    refused("bitcast", normal(3).of(bool_), error=DTypeError, match="needs a last axis of 4",
            dtype=float32),
    refused("reshape", normal(2, 3), match=r"has 6 elements, shape \(4,\) has 4", shape=(4,)),
    refused("reshape", normal(2, 3), match="has 6 elements", shape=(-1, -6)),
    refused("permute", normal(2, 3), match="no permutation of the 2 axes", axes=(0, 0)),
    refused("permute", normal(2, 3), match="no permutation", axes=(0,)),
    refused("expand", normal(2, 3), match="does not broadcast to", shape=(2, 4)),
    refused("expand", normal(2, 3), match="does not broadcast to", shape=(3,)),
    refused("slice", normal(4), match="does not fit an axis of 4", starts=(0,), stops=(5,),
            steps=(1,)),
    refused("slice", normal(4), match="does not fit an axis", starts=(2,), stops=(1,), steps=(1,)),
    refused("slice", normal(4), match="does not fit an axis", starts=(4,), stops=(0,), steps=(-1,)),
    refused("slice", normal(4), match="does not fit an axis", starts=(0,), stops=(1,), steps=(0,)),
    refused("slice", normal(4, 4), match="starts .* has 1 entries .* 2 axes", starts=(0,),
            stops=(1,), steps=(1,)),
    refused("pad", normal(2), normal(), match="low .* negative entry; slice to crop", low=(-1,),
            high=(0,), interior=(0,)),
    refused("pad", normal(2), normal(1), match="must be 0-d", low=(0,), high=(0,), interior=(0,)),
    refused("flip", normal(2), match="axes .* do not fit", axes=(1,)),
    refused("flip", normal(2, 2), match="axes are distinct", axes=(1, 1)),
    refused("concat", normal(2), normal(2).of(int64), match="does not fit", axis=0),
    refused("concat", normal(2, 3), normal(2, 4), match="does not fit", axis=0),
    refused("dynamic_slice", normal(4), indices(4, 2), match="one start per axis", sizes=(2,)),
    refused("dynamic_slice", normal(4), indices(4, 1), match="sizes .* do not fit", sizes=(5,)),
    refused("dynamic_slice", normal(4), normal(1), error=DTypeError, match="integer index",
            sizes=(1,)),
    refused("dynamic_update_slice", normal(4), normal(5), indices(4, 1), match="do not fit"),
    refused("dynamic_update_slice", normal(4), normal(2).of(int64), indices(4, 1),
            match="must have the dtype"),
    refused("sum", normal(2, 3), match="axes .* do not fit", axes=(2,), dtype=float32),
    refused("sum", normal(2, 3), match="axes are distinct", axes=(0, 0), dtype=float32),
    refused("sum", normal(2), error=DTypeError, match="choose a numeric dtype", axes=(0,),
            dtype=bool_),
    refused("max", normal(2, 0), match="empty axis has no extreme", axes=(1,)),
    refused("argmax", normal(2, 0), match="empty axis has none", axis=1),
    refused("argmin", normal(2), match="axes .* do not fit", axis=1),
    refused("cumsum", normal(2), match="axes .* do not fit", axis=1, reverse=False),
    refused("cummax", normal(2), match="axes .* do not fit", axis=1, reverse=False),
    refused("sort", normal(2), match="axes .* do not fit", axis=1, descending=False),
    refused("gather", normal(2), normal(2), error=DTypeError, match="integer index", axis=0),
    refused("gather", normal(2), indices(2, 2), match="axes .* do not fit", axis=1),
    refused("gather_nd", normal(2), indices(2, 2), match="at most 1 axes"),
    refused("gather_nd", normal(2), indices(2), match="at most 1 axes"),
    refused("take_along", normal(2, 3), indices(2, 2, 2), match="match .* but 0", axis=0),
    refused("take_along", normal(2, 3), indices(2, 2), match="rank of", axis=0),
    refused("scatter_nd", normal(3), indices(3, 2, 1), normal(2), error=ArgumentError,
            match="update 'sub' is none of", update="sub"),
    refused("scatter_nd", normal(3), indices(3, 2, 1), normal(3), match="must have shape",
            update="add"),
    refused("scatter_nd", normal(3), indices(3, 2, 1), normal(2).of(int64), error=DTypeError,
            match="must have the dtype", update="add"),
    refused("scatter_along", normal(3), indices(3, 2), normal(3), match="shape of", axis=0,
            update="add"),
    refused("scatter_nd", normal(3).of(bool_), indices(3, 2, 1), truth(2), error=DTypeError,
            match="numeric", update="add"),
    refused("dot_general", normal(2, 3), normal(2, 3), match="contracted axes .* sizes",
            contract=((1,), (0,)), **_DOT),
    refused("dot_general", normal(2, 3), normal(3, 2), match="axes .* do not fit",
            contract=((2,), (0,)), **_DOT),
    refused("dot_general", normal(2), normal(2).of(int64), error=DTypeError, match="must share",
            contract=((0,), (0,)), **_DOT),
    refused("dot_general", normal(2, 3), normal(3, 3), match="batch axes .* sizes",
            contract=((1,), (1,)), batch=((0,), (0,)), dtype=float32),
    refused("conv", normal(1, 2, 4), normal(3, 3, 2), match="has 2 channels", **_CONV),
    refused("conv", normal(1, 2), normal(3, 2), match=r"\(N, C, \*spatial\)", **_CONV),
    refused("conv", normal(1, 2, 4, 4), normal(3, 2, 2, 2), match="need 2 entries", **_CONV),
    refused("conv", normal(1, 2, 4), normal(3, 1, 2), match="divide by the groups",
            **{**_CONV, "groups": 2}),
    refused("conv", normal(1, 2, 4), normal(3, 2, 2), error=ArgumentError, match="at least 1",
            **{**_CONV, "stride": (0,)}),
    refused("conv", normal(1, 2, 4), normal(3, 2, 2).of(int64), error=DTypeError,
            match="share a dtype", **_CONV),
    refused("conv_input_gradient", normal(1, 3, 4), normal(3, 2, 2), match="should have shape",
            input_shape=(1, 2, 4), **_CONV),
    refused("conv_weight_gradient", normal(1, 2, 4), normal(1, 3, 4), match="should have shape",
            weight_shape=(3, 2, 2), **_CONV),
    refused("window_reduce", normal(4), error=ArgumentError, match="kind 'mean' is none of",
            kind="mean", **_WINDOW),
    refused("window_reduce", normal(), match="does not fit", kind="max", **_WINDOW),
    refused("window_gradient", normal(4), normal(4), match="shape of the reduced", kind="max",
            **_WINDOW),
    refused("window_pick", normal(3), normal(4), match="one shape", kind="max", **_WINDOW),
    refused("fft", normal(4).of(float32), error=DTypeError, match="complex64 or complex128",
            kind="forward", axes=(0,), length=4),
    refused("fft", normal(4), error=ArgumentError, match="kind 'sine' is none of", kind="sine",
            axes=(0,), length=4),
    refused("fft", normal(4), match="axes .* do not fit", kind="r2c", axes=(1,), length=4),
    refused("random_bits", indices(9, 2), indices(9, 4), error=DTypeError, match=r"uint32\[2\]",
            shape=(3,), bits=32),
    refused("softmax", normal(2), match="axes .* do not fit", axis=1),
    refused("standardize", normal(2), match="axes .* do not fit", axes=(1,), eps=0.0),
]  # fmt: skip
