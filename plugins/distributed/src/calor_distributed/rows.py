"""Rows of collectives.

Requirements: one graph runs on every member; each member has its own array for a value. A
collective is a node of that graph. It takes and returns the token of its group, a value without
contents that orders all collectives of the group. The token is state that is written, hence an
output of every plan with a collective, so no pass removes or reorders one.

``world`` is the number of members. With one member each row returns its operand, which is also how
a device outside of a group runs it. Gradients are those of the sum of all members' losses, as in
PyTorch's ``torch.distributed.nn``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from calor.dtypes import int32
from calor.errors import ArgumentError, ShapeError, TraceError
from calor.functions.ordering import token_of
from calor.ops import elementwise as e
from calor.ops import movement, reductions, rules
from calor.ops.base import Op, Rule, Saves, Scalar, op
from calor.ops.sources import full, iota, zeros_of
from calor.specs import Spec, spec

# Reductions, element by element in the order of the members.
KINDS: Final = ("sum", "prod", "max", "min")
TOKEN: Final = spec((), int32)


def _member_rule(x: Spec, token: Spec, world: int) -> None:
    if type(world) is not int or world < 1:
        raise ArgumentError(f"world is {world}; a group has at least one member")
    if token.shape != () or token.dtype is not int32:
        raise ArgumentError(f"token is {token}; the token of a group is {TOKEN}")


def _meet_rule(x: Spec, kind: str) -> None:
    if kind not in KINDS:
        raise ArgumentError(f"kind is {kind!r}; pass one of {', '.join(KINDS)}")
    rules.numbers(x) if kind in ("sum", "prod") else rules.ordered(x)


def _all_reduce_rule(x: Spec, token: Spec, *, kind: str, world: int) -> tuple[Spec, Spec]:
    _member_rule(x, token, world)
    _meet_rule(x, kind)
    return spec(x.shape, x.dtype), TOKEN


def _all_gather_rule(x: Spec, token: Spec, *, world: int) -> tuple[Spec, Spec]:
    _member_rule(x, token, world)
    if not x.shape:
        raise ShapeError(f"all_gather: {x} has no axis to join along; pass x.reshape(1)")
    return spec((world * x.shape[0], *x.shape[1:]), x.dtype), TOKEN


def _reduce_scatter_rule(x: Spec, token: Spec, *, kind: str, world: int) -> tuple[Spec, Spec]:
    _member_rule(x, token, world)
    _meet_rule(x, kind)
    if not x.shape or x.shape[0] % world:
        raise ShapeError(
            f"reduce_scatter: the axis to scatter, first in {x}, does not divide into {world} "
            f"equal parts; pad x"
        )
    return spec((x.shape[0] // world, *x.shape[1:]), x.dtype), TOKEN


def _broadcast_rule(x: Spec, token: Spec, *, root: int, world: int) -> tuple[Spec, Spec]:
    _member_rule(x, token, world)
    if type(root) is not int or not 0 <= root < world:
        raise ArgumentError(
            f"a group of {world} has no member {root}; members are numbered from 0 to {world - 1}"
        )
    return spec(x.shape, x.dtype), TOKEN


def _alone(x: Any, token: Any, *, world: int, **attributes: Any) -> tuple[Any, Any]:
    """Return the operands: a collective among one member changes nothing."""
    if world != 1:
        raise ArgumentError(
            f"a collective of {world} members runs on a group of {world} devices, and this is one "
            f"device; make a group with calor.distributed.group(...)"
        )
    return x, token


def recorded(row: Op, x: Any, **attributes: Any) -> Any:
    """Record a collective after all earlier ones of the tensor's group; return its result."""
    token = token_of(x.device)
    made, after = row(x, token, **attributes)
    token._rebind(after)
    return made


def rank_on(device: Any, world: int) -> Any:
    """Return the number of each member of a group, from 0, as a 0-d int32."""
    from calor.device_selection import as_device

    with as_device(device):
        return rank(world=world)


def _all_reduce_saves(x: Spec, token: Spec, *, kind: str, world: int) -> str:
    # In a group of one the gradient passes through, so nothing is saved.
    return "" if world == 1 else {"sum": "", "prod": "0"}.get(kind, "0y")


def _all_reduce_gradient(g: Any, y: Any, x: Any, token: Any, *, kind: str, world: int) -> list[Any]:
    if g[0] is None or world == 1:
        return [g[0], None]
    total = recorded(all_reduce, g[0], kind="sum", world=world)
    if kind == "sum":
        return [total, None]
    if kind == "prod":
        return [total * e.conjugate(_others(x, world)), None]
    # Members with equal extremes share the gradient evenly, as equal elements of one array do.
    hit = e.cast(e.bit_or(e.equal(x, y[0]), e.isnan(x)), dtype=total.dtype)
    count = recorded(all_reduce, hit, kind="sum", world=world)
    return [hit * (total / count), None]


def _others(x: Any, world: int) -> Any:
    """Return the product of the other members' arrays; no division, so zeros are allowed."""
    rows = movement.reshape(x, shape=(1, *x.shape))
    all_rows = recorded(all_gather, rows, world=world)
    ones = (1,) * x.ndim
    own = e.equal(_members(x, world), movement.expand(rank_on(x.device, world), shape=(world,)))
    own = movement.expand(movement.reshape(own, shape=(world, *ones)), shape=all_rows.shape)
    one = movement.expand(_one(x), shape=all_rows.shape)
    return reductions.prod(e.where(own, one, all_rows), axes=(0,), dtype=x.dtype)


def _members(x: Any, world: int) -> Any:

    with x.device:
        return iota(length=world, dtype=int32)


def _one(x: Any) -> Any:

    with x.device:
        return full(value=Scalar.of(1, x.dtype), shape=(), dtype=x.dtype)


def _all_gather_gradient(g: Any, y: Any, x: Any, token: Any, *, world: int) -> list[Any]:
    if g[0] is None or world == 1:
        return [g[0], None]
    return [recorded(reduce_scatter, g[0], kind="sum", world=world), None]


def _reduce_scatter_saves(x: Spec, token: Spec, *, kind: str, world: int) -> str:
    return "" if kind == "sum" or world == 1 else "0"


def _reduce_scatter_gradient(
    g: Any, y: Any, x: Any, token: Any, *, kind: str, world: int
) -> list[Any]:
    if g[0] is None or world == 1:
        return [g[0], None]
    spread = recorded(all_gather, g[0], world=world)
    if kind == "sum":
        return [spread, None]
    if kind == "prod":
        return [spread * e.conjugate(_others(x, world)), None]
    extreme = recorded(all_reduce, x, kind=kind, world=world)
    hit = e.cast(e.bit_or(e.equal(x, extreme), e.isnan(x)), dtype=spread.dtype)
    count = recorded(all_reduce, hit, kind="sum", world=world)
    return [hit * (spread / count), None]


def _broadcast_gradient(g: Any, y: Any, x: Any, token: Any, *, root: int, world: int) -> list[Any]:
    if g[0] is None or world == 1:
        return [g[0], None]
    total = recorded(all_reduce, g[0], kind="sum", world=world)

    with total.device:
        here = full(value=Scalar.of(root, int32), shape=(), dtype=int32)
    own = movement.expand(e.equal(rank_on(total.device, world), here), shape=total.shape)
    return [e.where(own, total, zeros_of(total._value.spec, total.device)), None]


def _refuse(name: str) -> Any:
    """Return a batching rule that says why there is none."""

    def rule(size: int, mapped: tuple[bool, ...], *operands: Any, **attributes: Any) -> Any:
        raise TraceError(
            f"calor.vmap: {name} of a mapped value; the members of a group meet once for the whole "
            f"axis, so call the collective outside, on the result of calor.vmap"
        )

    return rule


def _collective(name: str, rule: Rule, vjp: Any, saves: Saves = "") -> Op:
    batch = _refuse(name)
    return op(name, rule, _alone, vjp, saves=saves, decompose=_alone, partial=True, batch=batch)


all_reduce: Op = _collective(
    "all_reduce", _all_reduce_rule, _all_reduce_gradient, _all_reduce_saves
)
all_gather: Op = _collective("all_gather", _all_gather_rule, _all_gather_gradient)
reduce_scatter: Op = _collective(
    "reduce_scatter", _reduce_scatter_rule, _reduce_scatter_gradient, _reduce_scatter_saves
)
broadcast: Op = _collective("broadcast", _broadcast_rule, _broadcast_gradient)

COLLECTIVES: Final = frozenset((all_reduce, all_gather, reduce_scatter, broadcast))


def _rank_rule(*, world: int) -> Spec:
    _member_rule(TOKEN, TOKEN, world)
    return TOKEN


def _first(*, world: int) -> Any:
    _alone(None, None, world=world)
    return np.zeros((), np.int32)


def _first_of_one(*, world: int) -> Any:
    _alone(None, None, world=world)
    return full(value=Scalar.of(0, int32), shape=(), dtype=int32)


rank: Op = op(
    "rank",
    _rank_rule,
    _first,
    decompose=_first_of_one,
    no_gradient="it has no operands",
)
