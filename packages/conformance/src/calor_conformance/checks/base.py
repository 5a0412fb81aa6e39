"""What a check is: one question to a device, with a name, a tier and a definition that is digested.

Requirements: checks are made from data without touching a device, so that every machine counts the
same ones; a check raises AssertionError when a contract is broken, and lets errors of calor
through; what a check needs of a device is stated, so that a device that declares it impossible is
skipped and counted instead of failing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

import calor
from calor.backends.device import Device
from calor.backends.protocol import Executable
from calor.compiling.partition import compile_graph
from calor.device_selection import current_device
from calor.dtypes import DType, bfloat16, float16, float32, float64, int8, int32
from calor.graph.graph import Graph

Array = np.ndarray[Any, Any]
Tier = Literal["basic", "full", "dtypes", "compiled", "training"]
TIERS: tuple[Tier, ...] = ("basic", "full", "dtypes", "compiled", "training")
# What every device computes, whatever else: the tier basic demands these of its widest dtype.
REQUIRED = ("add", "sub", "mul", "maximum", "neg", "reshape", "permute", "expand", "slice", "sum",
            "max", "dot_general", "cast", "where")  # fmt: skip


@dataclass(frozen=True)
class Place:
    """The device under test; ``plain`` is what it is without the proxy that checks the protocol."""

    device: Device
    plain: Device
    seed: int = 0

    @property
    def interactive(self) -> bool:
        """Whether a look may compile; where not, everything is asked through ``calor.jit``."""
        return self.plain.info.feature("interactive").level != "impossible"

    @property
    def flushes(self) -> frozenset[DType]:
        """The dtypes whose smallest numbers the device declares to take for zeros."""
        return self.plain.info.flushes

    def call(self, function: Callable[..., Any], *tensors: Any) -> Any:
        """Call a function of tensors, jitted where the device is not interactive."""
        return function(*tensors) if self.interactive else calor.jit(function)(*tensors)


Run = Callable[[Place], None]
# What contracts that are about no dtype are checked with: the first that the device has.
PLAIN = (float32, float16, bfloat16, float64, int32, int8)


def plain_type() -> DType:
    """Return the dtype of PLAIN that the device in use computes in; float32 if it has none."""
    info = current_device().info
    return next((d for d in PLAIN if info.supports("add", d)), float32)


def plain_array(values: Any) -> Array:
    """Return host numbers in the plain dtype of the device in use."""
    return np.array(values, plain_type().numpy)


def compiled(place: Place, graph: Graph) -> Executable:
    """Compile a graph as core does: it is claimed first, and what is refused is UnsupportedError.

    A backend is promised to compile only what it has taken.
    """
    return compile_graph(place.plain, graph)


@dataclass(frozen=True)
class Packable:
    """A check that many others can share a graph with: record first, judge the results later."""

    record: Callable[[Place], Sequence[Any]]
    judge: Callable[[Place, Sequence[Array]], None]


@dataclass(frozen=True)
class Check:
    """One question.

    ``kind`` names the family, ``subject`` the row or contract, ``op`` the op of the table that it
    is about ("" where it is about none). ``dtypes`` are those that the device must have,
    ``features`` the features, ``contract`` what a failure breaks. The digest is taken of ``text``.
    ``nbytes`` is the size of its largest array where that is large. ``looks`` says that it looks at
    pending work, for which a device must be interactive. ``provisional`` names the release that
    brought the check: it is reported, and decides from the next minor release on. ``profiles``
    names the profiles that ask it, all when it is empty. ``steps`` is where it can share a graph.
    """

    kind: str
    subject: str
    tier: Tier
    contract: str
    run: Run = field(repr=False)
    text: str = field(repr=False)
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
        """Changes when the check does."""
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
            self.text,
        ]
        return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def packed(
    record: Callable[[Place], Sequence[Any]], judge: Callable[[Place, Sequence[Array]], None]
) -> tuple[Run, Packable]:
    """Return a check's body that runs alone, and the same in two steps."""

    def run(place: Place) -> None:
        judge(place, [t.numpy() for t in record(place)])

    return run, Packable(record, judge)
