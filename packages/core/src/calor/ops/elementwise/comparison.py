"""Rows of comparison, logic and choice."""

from __future__ import annotations

import numpy as np

from calor.ops import rules
from calor.ops.base import Op, op
from calor.ops.movement import fill
from calor.reference import elementwise as reference

__all__ = [
    "bit_and",
    "bit_not",
    "bit_or",
    "bit_xor",
    "equal",
    "greater",
    "greater_equal",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "not_equal",
    "shift_left",
    "shift_right",
    "signbit",
    "where",
]

FLAT = "it is constant between its steps, so no gradient flows"

equal: Op = op("equal", rules.test, np.equal, promotion="same", no_gradient=FLAT)
not_equal: Op = op("not_equal", rules.test, np.not_equal, promotion="same", no_gradient=FLAT)
less: Op = op("less", rules.compare, np.less, promotion="same", no_gradient=FLAT)
less_equal: Op = op("less_equal", rules.compare, np.less_equal, promotion="same", no_gradient=FLAT)
greater: Op = op("greater", rules.compare, np.greater, promotion="same", no_gradient=FLAT)
greater_equal: Op = op(
    "greater_equal", rules.compare, np.greater_equal, promotion="same", no_gradient=FLAT
)
bit_and: Op = op("bit_and", rules.bits, np.bitwise_and, promotion="same", no_gradient=FLAT)
bit_or: Op = op("bit_or", rules.bits, np.bitwise_or, promotion="same", no_gradient=FLAT)
bit_xor: Op = op("bit_xor", rules.bits, np.bitwise_xor, promotion="same", no_gradient=FLAT)
bit_not: Op = op("bit_not", rules.bits, np.invert, promotion="same", no_gradient=FLAT)
shift_left: Op = op(
    "shift_left", rules.integers, reference.shift_left, promotion="same", no_gradient=FLAT
)
shift_right: Op = op(
    "shift_right", rules.integers, reference.shift_right, promotion="same", no_gradient=FLAT
)
isnan: Op = op("isnan", rules.test, np.isnan, promotion="same", no_gradient=FLAT)
isinf: Op = op("isinf", rules.test, np.isinf, promotion="same", no_gradient=FLAT)
isfinite: Op = op("isfinite", rules.test, np.isfinite, promotion="same", no_gradient=FLAT)
signbit: Op = op("signbit", rules.compare, np.signbit, promotion="same", no_gradient=FLAT)
where: Op = op(
    "where",
    rules.select,
    np.where,
    (
        None,
        lambda g, y, c, a, b: where(c, g, fill(g, 0)),
        lambda g, y, c, a, b: where(c, fill(g, 0), g),
    ),
    saves=("", "0", "0"),
    promotion="same",
)
