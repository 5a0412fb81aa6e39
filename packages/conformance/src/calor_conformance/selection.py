"""Which checks a run asks: tiers, profiles, ops, dtypes, kinds, patterns and shards.

A profile is a narrower promise for a narrow device: which dtypes it computes in, and which ops
belong to it. What a profile leaves out is not asked, and the report names the profile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from calor.dtypes import (
    ALL,
    DType,
    as_dtype,
    bool_,
    float16,
    float32,
    int8,
    int32,
    int64,
    uint8,
)
from calor.errors import ArgumentError

from .checks.base import REQUIRED, TIERS, Check, Tier

_FORWARD: tuple[Tier, ...] = ("basic", "full", "dtypes", "compiled")
_INFERENCE = (
    "add", "sub", "mul", "div", "maximum", "minimum", "neg", "exp", "tanh", "sqrt",
    "relu", "sigmoid", "silu", "gelu", "gelu_tanh", "softmax", "log_softmax", "standardize",
    "rms_norm", "attention", "dot_general", "conv", "window_reduce", "sum", "max", "reshape",
    "permute", "expand", "slice", "pad", "flip", "concat", "cast", "where", "gather", "gather_nd",
    "erf", "abs", "greater", "less", "equal",
)  # fmt: skip


@dataclass(frozen=True)
class Profile:
    """A promise: the tiers and dtypes it spans, the ops it needs and those that it must have.

    ``main`` is the dtype in which rows are met that others meet in float32.
    """

    name: str
    about: str
    tiers: tuple[Tier, ...]
    dtypes: tuple[DType, ...] = ALL
    ops: tuple[str, ...] | None = None
    required: tuple[str, ...] = REQUIRED
    main: DType | None = None

    def wants(self, check: Check) -> bool:
        """Whether a check belongs to the profile."""
        if check.tier not in self.tiers or (check.profiles and self.name not in check.profiles):
            return False
        if any(d not in self.dtypes for d in check.dtypes):
            return False
        return self.ops is None or not check.op or check.op in self.ops


PROFILES = {
    p.name: p
    for p in (
        Profile("complete", "everything that calor can ask of a device", TIERS),
        Profile("array", "array computing, without gradients", _FORWARD),
        Profile(
            "inference-f16",
            "inference in half precision with integer indices",
            _FORWARD,
            (float16, float32, bool_, int8, int32, int64, uint8),
            _INFERENCE,
            ("add", "mul", "maximum", "dot_general", "conv"),
            float16,
        ),
        Profile(
            "inference-int8",
            "inference in int8 with int32 sums",
            _FORWARD,
            (int8, uint8, int32, bool_, float16, float32),
            _INFERENCE,
            ("add", "mul", "maximum", "dot_general", "conv", "cast"),
            int8,
        ),
    )
}


@dataclass(frozen=True)
class Selection:
    """What a run asks. Empty tuples select everything; ``shard`` is (number, of how many)."""

    profile: str = "complete"
    tiers: tuple[Tier, ...] = ()
    ops: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    shard: tuple[int, int] = (1, 1)

    def of(self, checks: Iterable[Check]) -> list[Check]:
        """Return the selected checks in their order."""
        profile = PROFILES[self.profile]
        wanted = [c for c in checks if profile.wants(c) and self._asks(c)]
        number, count = self.shard
        return wanted[number - 1 :: count]

    def _asks(self, check: Check) -> bool:
        if self.tiers and check.tier not in self.tiers:
            return False
        if self.ops and check.op not in self.ops:
            return False
        if self.dtypes and (check.dtype is None or check.dtype.name not in self.dtypes):
            return False
        if self.kinds and check.kind not in self.kinds:
            return False
        return not self.patterns or any(fnmatchcase(check.name, p) for p in self.patterns)

    @property
    def whole(self) -> bool:
        """Whether nothing of the profile is left out (tiers apart, which have own verdicts)."""
        return not (self.ops or self.dtypes or self.kinds or self.patterns)


def selection(
    *,
    profile: str = "complete",
    tiers: Iterable[str] = (),
    ops: Iterable[str] = (),
    dtypes: Iterable[str] = (),
    kinds: Iterable[str] = (),
    patterns: Iterable[str] = (),
    shard: str = "1/1",
    known_ops: Iterable[str],
    known_kinds: Iterable[str],
) -> Selection:
    """Return a selection from texts; ArgumentError names what there is when one is unknown."""
    _known("profile", [profile], PROFILES)
    _known("tier", tiers, TIERS)
    _known("op", ops, sorted(known_ops))
    _known("kind", kinds, sorted(known_kinds))
    for name in dtypes:
        as_dtype(name)
    number, _, count = shard.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ArgumentError(f"shard {shard!r} is not such as 2/5: the second of five")
    chosen = tuple(t for t in TIERS if t in set(tiers))
    return Selection(profile, chosen, tuple(ops), tuple(dtypes), tuple(kinds), tuple(patterns),
                     (int(number), int(count)))  # fmt: skip


def _known(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    there = list(known)
    for name in names:
        if name not in there:
            raise ArgumentError(f"there is no {what} {name!r}; there are {', '.join(there)}")
