"""Selection of checks: tiers, profiles, ops, dtypes, kinds, patterns and shards.

A profile is a promise for a specialized device: its dtypes and its ops. Checks outside of the
profile do not run, and the report names the profile.
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
    """A promise of a device.

    Parameters
    ----------
    name : str
        Name of the profile.
    about : str
        Description in a few words.
    tiers : tuple of str
        Tiers of the profile.
    dtypes : tuple of DType, default all
        Dtypes that the profile needs.
    ops : tuple of str, default None
        Ops of the profile; None for all.
    required : tuple of str, optional
        Ops that must pass in at least one dtype.
    main : DType, default None
        Dtype that replaces float32 as the first dtype of rows.
    """

    name: str
    about: str
    tiers: tuple[Tier, ...]
    dtypes: tuple[DType, ...] = ALL
    ops: tuple[str, ...] | None = None
    required: tuple[str, ...] = REQUIRED
    main: DType | None = None

    def wants(self, check: Check) -> bool:
        """Return whether a check belongs to the profile."""
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
    """The selected checks of a run; empty tuples select all.

    Parameters
    ----------
    profile : str, default "complete"
        Name of the profile.
    tiers, ops, dtypes, kinds, patterns : tuple of str, default ()
        Tiers, ops, names of dtypes, kinds of checks, and patterns of names.
    shard : tuple of int, default (1, 1)
        Number of this part from 1, and the number of parts.
    """

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
        """Whether all checks of the profile are selected; tiers have verdicts of their own."""
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
    """Return a selection from texts.

    Parameters
    ----------
    profile : str, default "complete"
        Name of the profile.
    tiers, ops, dtypes, kinds, patterns : iterable of str, default ()
        Names to select; empty for all.
    shard : str, default "1/1"
        Number of this part and the number of parts, such as "2/5".
    known_ops, known_kinds : iterable of str
        All ops and kinds of the suite.

    Returns
    -------
    Selection
        The selection.

    Raises
    ------
    ArgumentError
        If a profile, tier, op, kind or shard does not exist. The message lists the existing ones.
    DTypeError
        If a dtype does not exist.
    """
    _known("profile", [profile], PROFILES)
    _known("tier", tiers, TIERS)
    _known("op", ops, sorted(known_ops))
    _known("kind", kinds, sorted(known_kinds))
    for name in dtypes:
        as_dtype(name)
    number, _, count = shard.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ArgumentError(f"shard is {shard!r}; write it as 2/5, the second of five parts")
    chosen = tuple(t for t in TIERS if t in set(tiers))
    return Selection(profile, chosen, tuple(ops), tuple(dtypes), tuple(kinds), tuple(patterns),
                     (int(number), int(count)))  # fmt: skip


def _known(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    there = list(known)
    for name in names:
        if name not in there:
            raise ArgumentError(f"there is no {what} {name!r}; choose from {', '.join(there)}")
