"""Differences from PyTorch that are meant, and entries that cannot be traced, with the reason."""

from __future__ import annotations

from typing import Final

_SHAPE = "the shape of the result depends on the elements"
_READ = "the elements are numbers of Python in calor"

EAGER: Final = {
    **dict.fromkeys(
        ("argwhere", "masked_select", "nonzero", "unique", "unique_consecutive", "item", "equal",
         "allclose", "__getitem__", "index_put", "nn.functional.one_hot", "bincount"),
        _SHAPE,
    ),
    **dict.fromkeys(
        ("linspace/tensor_overload", "logspace/tensor_overload", "narrow", "narrow_copy",
         "repeat_interleave", "tensor_split"),
        _READ,
    ),
}  # fmt: skip

# The error of a sample that no entry has to accept: its type, a part of its text, the reason.
ANYWHERE: Final = (
    ("AxisError", "is out of range for shape ()", "a 0-d tensor has no axis, as in NumPy"),
    ("ArgumentError", "p must be above 0", "orders of a norm are above 0"),
    ("ShapeError", "summed axes have one size", "PyTorch broadcasts axes of size 1 there"),
    ("AxisError", "is out of range for shape (0,)", "PyTorch skips tensors of shape (0,) in cat"),
    ("DTypeError", "bool has no", "bool has no sums and products; PyTorch takes any and all"),
    ("ShapeError", "scores of shape ()", "a 0-d tensor has no classes"),
    ("ShapeError", "must have one shape", "the operands of a loss do not broadcast"),
    ("DTypeError", "needs a real floating tensor", "layers and losses take real numbers"),
    ("ShapeError", "must be (N, C, *S)", "layers of channels have a batch"),
    ("ShapeError", "the same number of axes", "attention does not add axes to its operands"),
    ("ShapeError", "needs at least one", "a largest singular value or sum of no elements"),
    ("TypeError", "'return_indices'", "adaptive max pooling returns no indices"),
    ("DTypeError", "needs numeric operands, not bool", "arithmetic of bool: cast it first"),
)

# name -> step ("value", "gradient", "jit", "vmap"; with a dtype behind it or not) -> reason
_TIES = "the order of equal elements; calor's is stable"
_INTEGER_MEANS = "averages of integers are floating; PyTorch rounds them down"
_FRACTIONS = "PyTorch cuts a fractional number to an integer for integers; calor promotes"
_DEGREES = "a degree between -1 and 0: PyTorch cuts it to 0, calor has no such polynomial"
KNOWN: Final[dict[str, dict[str, str]]] = {
    "argsort": {"value bool": _TIES, "value bfloat16": _TIES},
    "msort": {"gradient bfloat16": _TIES},
    **{f"nn.functional.avg_pool{n}d": {"value int64": _INTEGER_MEANS} for n in (1, 2, 3)},
    **{name: {"value int64": _FRACTIONS} for name in (
        "addbmm", "addmm", "addmv", "baddbmm", "nn.functional.hardtanh")},
    "arange": {"value int64": "PyTorch rounds the bounds to integers before it counts"},
    **{name: {"value int64": "PyTorch rounds the step of the exponents to an integer"}
       for name in ("logspace", "logspace/tensor_overload")},
    "logaddexp": {"value complex64": "the angle is the principal one; exp of both is the same"},
    "logcumsumexp": {"value complex64": "the angle is the principal one; exp of both is the same"},
    "histc": {"value bfloat16": "elements beside an edge: calor counts by the edges it returns"},
    "masked.logsumexp": {"value int64": "a logarithm of integers is floating"},
    "matrix_exp": {"value bfloat16": "decompositions of half types are refused; cast first"},
    **{name: {"value": "both are random approximations", "vmap": "it draws random numbers"}
       for name in ("svd_lowrank", "pca_lowrank")},
    "addr": {"value bool": "a sum of bool is of integers", "value int64": _FRACTIONS},
    "istft": {"value complex64": "of a spectrum that is not Hermitian PyTorch reads one half"},
    "nextafter": {"gradient": "it steps through the numbers that a dtype has"},
    "nn.functional.ctc_loss": {"gradient": "PyTorch's is for the result of a log_softmax"},
    "nn.functional.hinge_embedding_loss": {"value": "targets are 1 or -1"},
    **{f"nn.functional.max_unpool{n}d": {"gradient": "several elements at one place: the last wins"}
       for n in (1, 2, 3)},
    "sort": {"gradient bfloat16": _TIES}, "topk": {"gradient bfloat16": _TIES},
    **{name: {"value complex64": "LAPACK chooses pivots by |re| + |im|, calor by magnitude"}
       for name in ("lu", "linalg.lu", "linalg.lu_factor", "linalg.lu_factor_ex")},
    **{f"special.{shifted}chebyshev_polynomial_{kind}": {"value float32": _DEGREES}
       for shifted in ("", "shifted_") for kind in "tuvw"},
    **{f"special.{name}": {"value float32": _DEGREES} for name in (
        "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
        "legendre_polynomial_p")},
}  # fmt: skip
