"""Exemptions from the generated tests, each with its reason. Shorter is better."""

from __future__ import annotations

from calor.ops.base import TABLE

# Elementwise ops of complex numbers only; the array API suite has their special values.
NOT_EVERYWHERE: dict[str, str] = {
    "real": "it takes complex numbers only",
    "imag": "it takes complex numbers only",
    **dict.fromkeys(
        ("silu_gradient", "gelu_gradient", "gelu_tanh_gradient"),
        "a slope that vanishes has no sign, and no product with infinity",
    ),
}

# Ops of the table without a row here.
NO_ROW: dict[str, str] = {
    "input": "it is the leaf of a trace and is never computed",
    "custom_gradient": "calor.custom_vjp makes it in a trace; the transforms have its tests",
    "eig": "its vectors have no fixed phase; the rows of exponential are what they multiply to",
    "eigh": "its vectors have no fixed sign; the rows of spectrum are what they multiply to",
    "svd": "its vectors have no fixed sign; the rows of singular are what they multiply to",
}

# Ops whose gradient is not compared with differences.
NOT_DIFFERENTIATED: dict[str, str] = {
    "cholesky": "its gradient is that for Hermitian matrices; the rows of factor are compared",
    "cholesky_or_nan": "its gradient is that of cholesky",
}

# Rows with a right first and a wrong second gradient, by label.
FIRST_ORDER_ONLY: dict[str, str] = {
    "scatter_nd-mul-zeros": "the derivative by one of two zero factors of a place is taken as "
    "constant in the other, so that no product over the others of each factor is needed",
}

# Ops that may save values that a gradient does not read.
KEPT_WITHOUT_USE: dict[str, str] = {
    "sort": "the outputs of one op are kept together, its gradient reads the places alone",
    "standardize": "the outputs of one op are kept together, its gradient reads no mean",
    "attention": "one op gives the gradients of query, key and value together",
    "solve": "one system gives the gradients of matrices and right sides together",
    "triangular_solve": "one system gives the gradients of matrices and right sides together",
    "slogdet": "the outputs of one op are kept together, its gradient reads no logarithm",
    "cholesky": "its rows have no gradient of their own, see above",
    "cholesky_or_nan": "its rows have no gradient of their own, see above",
    "eigh": "it has no row, see above",
    "svd": "it has no row, see above",
    "cond": "which operands a gradient reads is up to the branches",
    "scan": "which operands a gradient reads is up to the body",
    **{name: c.at_edges for name, op in TABLE.items() for c in op.checks if c.at_edges},
}

# Ops that calor.vmap refuses on mapped values.
NOT_MAPPED: dict[str, str] = dict.fromkeys(
    ("all_gather", "all_reduce", "broadcast", "reduce_scatter"),
    "members meet once for the whole axis, so a collective stands outside of calor.vmap",
)

# Kept composites whose gradient differs by convention from that of their decomposition.
OTHER_GRADIENT: dict[str, str] = {
    "expm": "its definition squares until it is enough, which has no gradient of its own",
}
