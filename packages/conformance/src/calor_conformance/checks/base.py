"""A check: one test of a device, with a name, a tier and a definition with a digest.

Requirements: checks are made from data without a device, so every machine has the same ones. A
check raises AssertionError if a contract is broken, and lets errors of calor pass. It names its
needs, so that a device that declares them impossible is skipped and counted instead of failing.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Literal

import numpy as np

import calor
from calor.backends.device import Device
from calor.backends.numpy_backend import NumpyBackend
from calor.backends.protocol import Executable
from calor.compiling.partition import compile_graph
from calor.device_selection import current_device
from calor.dtypes import DType, bfloat16, float16, float32, float64, int8, int32
from calor.graph.graph import Graph

Array = np.ndarray[Any, Any]
Tier = Literal["basic", "full", "dtypes", "compiled", "training"]
TIERS: tuple[Tier, ...] = ("basic", "full", "dtypes", "compiled", "training")
# Ops that every device must have in its widest dtype, for the tier basic.
REQUIRED = ("add", "sub", "mul", "maximum", "neg", "reshape", "permute", "expand", "slice", "sum",
            "max", "dot_general", "cast", "where")  # fmt: skip


@dataclass(frozen=True)
class Place:
    """The device under test.

    Parameters
    ----------
    device : Device
        The device that runs the checks, possibly behind the proxy that checks the protocol.
    plain : Device
        The device without the proxy.
    seed : int, default 0
        Seed of the operands.
    """

    device: Device
    plain: Device
    seed: int = 0

    @property
    def interactive(self) -> bool:
        """Whether a read may compile; otherwise all calls go through ``calor.jit``."""
        return self.plain.info.feature("interactive").level != "impossible"

    def number(self, count: int) -> int:
        """Return the number of something drawn, which is another one with each seed."""
        return count + 10_000 * self.seed

    @property
    def interpreted(self) -> bool:
        """Whether no program needs a compiler, as on the reference and what is made of it."""
        return isinstance(self.plain.backend, NumpyBackend)

    def tries(self, number: int, among: int) -> bool:
        """Return whether one of many programs is tried: each where none needs a compiler.

        Elsewhere it is one among some, and another one with each seed.
        """
        return self.interpreted or (number + self.seed) % among == 0

    @property
    def flushes(self) -> frozenset[DType]:
        """The dtypes whose denormals the device declares to flush to zero."""
        return self.plain.info.flushes

    def call(self, function: Callable[..., Any], *tensors: Any) -> Any:
        """Call a function of tensors, jitted if the device is not interactive."""
        return function(*tensors) if self.interactive else calor.jit(function)(*tensors)


Run = Callable[[Place], None]
# Contracts without a dtype use the first of these that the device has.
PLAIN = (float32, float16, bfloat16, float64, int32, int8)


def members() -> int:
    """Return of how many devices the current one consists, each of which runs a program."""
    return current_device().info.limits.get("members", 1)


def plain_type() -> DType:
    """Return the first dtype of PLAIN that the current device computes in, or float32."""
    info = current_device().info
    return next((d for d in PLAIN if info.supports("add", d)), float32)


def plain_array(values: Any) -> Array:
    """Return host numbers in the plain dtype of the current device."""
    return np.array(values, plain_type().numpy)


def compiled(place: Place, graph: Graph) -> Executable:
    """Compile a graph as core does, after a claim; refused nodes raise UnsupportedError.

    A backend compiles only graphs that it has claimed.
    """
    return compile_graph(place.plain, graph)


@dataclass(frozen=True)
class Packable:
    """The two steps of a check that can share a graph with others: recording and judging."""

    record: Callable[[Place], Sequence[Any]]
    judge: Callable[[Place, Sequence[Array]], None]


@dataclass(frozen=True)
class Check:
    """One test of a device.

    Parameters
    ----------
    kind : str
        Family of the check.
    subject : str
        The row or contract.
    tier : str
        Tier of the check.
    contract : str
        The contract that a failure breaks, as a sentence.
    run : callable
        Runs the check on a Place.
    text : callable
        Returns the definition of the check, from which its digest is computed. Most runs select few
        checks, and the definitions of all take longer than those.
    op : str, default ""
        The tested op, if there is one.
    dtype : DType, default None
        The tested dtype, part of the name.
    dtypes : tuple of DType, default ()
        Dtypes that the device needs.
    features : tuple of str, default ()
        Features that the device needs.
    nbytes : int, default 0
        Size of the largest array if it is large.
    looks : bool, default False
        Whether the check reads pending work, which needs an interactive device.
    provisional : str, default ""
        The release that added the check, while it is only reported.
    profiles : tuple of str, default ()
        Profiles that have the check; empty for all.
    steps : Packable, default None
        The steps of a check that can share a graph.
    explain : callable, default None
        Returns the smallest failing case as text.
    """

    kind: str
    subject: str
    tier: Tier
    contract: str
    run: Run = field(repr=False)
    text: Callable[[], str] = field(repr=False)
    op: str = ""
    dtype: DType | None = None
    dtypes: tuple[DType, ...] = ()
    features: tuple[str, ...] = ()
    nbytes: int = 0
    looks: bool = False
    provisional: str = ""
    profiles: tuple[str, ...] = ()
    steps: Packable | None = field(default=None, repr=False)
    explain: Callable[[Place], str] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The unique name: kind/subject/dtype."""
        parts = [self.kind, self.subject]
        if self.dtype is not None:
            parts.append(self.dtype.name)
        return "/".join(parts).replace(" ", "_")

    @property
    def digest(self) -> str:
        """The digest of the definition."""
        dtypes = ",".join(d.name for d in self.dtypes)
        told = [
            self.name,
            self.tier,
            self.op,
            dtypes,
            *self.features,
            *self.profiles,
            f"{self.nbytes} {self.looks}",
            self.provisional,
            _text(self.text),
        ]
        return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


# Many checks are defined by the source of one function.
_source = cache(inspect.getsource)


def _text(text: Callable[[], str]) -> str:
    if isinstance(text, partial) and text.func is inspect.getsource:
        return _source(*text.args)
    return text()


def packed(
    record: Callable[[Place], Sequence[Any]], judge: Callable[[Place, Sequence[Array]], None]
) -> tuple[Run, Packable]:
    """Return the function that runs a check alone, and the same in two steps."""

    def run(place: Place) -> None:
        judge(place, [t.numpy() for t in record(place)])

    return run, Packable(record, judge)
