"""Differences from PyTorch that are meant, and entries that cannot be traced, with the reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Known:
    """A difference that is meant: in which entries, dtypes and step, and what its text has.

    ``entries`` and ``dtypes`` are names apart by spaces. ``text`` is a regular expression.
    """

    entries: str
    dtypes: str
    step: str
    text: str
    reason: str

    def excuses(self, entry: str, dtype: str, step: str, error: str) -> bool:
        """Return whether this is the difference of a step."""
        there = entry in self.entries.split() and dtype in self.dtypes.split()
        return there and step == self.step and re.search(self.text, error) is not None


_ALL: Final = "float32 bfloat16 complex64 int64 bool"
_REAL: Final = "float32 bfloat16 int64 bool"
_FLOATS: Final = "float32 bfloat16"
_OTHER: Final = "^Different: "
_FRACTION = "PyTorch cuts a fractional number to an integer for integers; calor promotes"
_TIES = "the order of equal elements is free; calor's is stable"
_DEGREE = "a degree between -1 and 0: PyTorch cuts it to 0, calor has no such polynomial"

KNOWN: Final = (
    # What NumPy and the array API standard refuse, calor refuses.
    Known("""all amax amin aminmax any argmax argmin count_nonzero cummax cummin cumprod cumsum
        linalg.vector_norm log_softmax log_softmax/with_dtype logsumexp masked.argmax masked.argmin
        masked.cumprod masked.cumsum masked.log_softmax masked.normalize masked.softmax
        masked.softmin max/reduction_with_dim mean min/reduction_with_dim nanmean nanquantile
        nansum nn.functional.cosine_similarity nn.functional.normalize nn.functional.softmin
        nn.functional.softmin/with_dtype norm prod quantile softmax softmax/with_dtype sum unfold
        unfold_copy""", _ALL, "value", r"^AxisError: .*shape \(\)",
        "a 0-d tensor has no axis, as in NumPy"),
    Known("cat", _ALL, "value", r"^AxisError: .*shape \(0,\)",
          "PyTorch skips tensors of shape (0,), of any number of axes"),
    Known("tensordot", "float32 bfloat16 complex64 int64", "value", "have sizes 1 and 2; summed",
          "PyTorch broadcasts a summed axis of size 1; NumPy and calor refuse"),
    Known("""_unsafe_masked_index_put_accumulate index_add index_put put scatter scatter_add
        scatter_reduce/prod scatter_reduce/sum""", "bool", "value",
        "needs numeric operands, not bool|bool has no",
        "bool has no sums and products; PyTorch takes any and all"),
    Known("sgn sign", "bool", "value", "needs numeric operands, not bool",
          "bool has no sign, as in NumPy"),
    Known("addr", "bool", "value", _OTHER, "a sum of bool is of integers"),
    Known("_segment_reduce/lengths _segment_reduce/offsets", _FLOATS, "value",
          "^ElementIndexError: index 5 is out of range",
          "lengths that leave out rows are refused; PyTorch takes them as unsafe"),
    Known("histogramdd", "float32", "value", "not nan",
          "edges that do not increase: PyTorch's densities are NaN, calor's are 0"),
    # Dtypes.
    Known("addbmm addmv baddbmm", "int64", "value", _OTHER, _FRACTION),
    Known("addr nn.functional.hardtanh", "int64", "value", _OTHER, _FRACTION),
    Known("arange", "int64", "value", "shape ",
          "PyTorch rounds the bounds to integers before it counts"),
    Known("linspace linspace/tensor_overload", "int64", "value", _OTHER,
          "PyTorch rounds integers towards 0, NumPy and calor downwards"),
    Known("logspace logspace/tensor_overload", "int64", "value", _OTHER,
          "PyTorch rounds the step of the exponents to an integer"),
    Known("masked.logsumexp", "int64", "value", _OTHER, "a logarithm of integers is floating"),
    Known("nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.avg_pool3d", "int64",
          "value", _OTHER, "averages of integers are floating; PyTorch rounds them down"),
    Known("matrix_exp", "bfloat16", "value", "^DTypeError: expm computes in",
          "linear algebra refuses half types; cast first"),
    Known("""nn.functional.batch_norm/without_cudnn nn.functional.l1_loss nn.functional.normalize
        nn.functional.feature_alpha_dropout/without_train nn.functional.pairwise_distance
        nn.functional.rms_norm nn.functional.softsign nn.functional.triplet_margin_loss""",
        "complex64", "value", "needs a real floating tensor",
        "layers and losses take real numbers"),
    # Shapes and attributes.
    Known("""nn.functional.batch_norm nn.functional.batch_norm/without_cudnn
        nn.functional.feature_alpha_dropout/without_train""", _REAL, "value",
        r"must be \(N, C, \*S\)", "layers of channels have a batch and channels"),
    Known("nn.functional.gaussian_nll_loss", _FLOATS, "value", "must have one shape",
          "the operands of a loss do not broadcast"),
    Known("nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss", "float32",
          "value", "and class numbers", "one score has no classes; a batch of one is (1, C)"),
    Known("nn.functional.normalize nn.functional.pairwise_distance", "float32 bfloat16 int64",
          "value", "p must be above 0", "a norm has an order above 0"),
    Known("nn.functional.scaled_dot_product_attention", _FLOATS, "value",
          "must have the same number of axes", "attention adds no axes to its operands"),
    Known("nn.functional.hinge_embedding_loss", _FLOATS, "value", _OTHER,
          "targets are 1 or -1; the sample has others"),
    Known("nn.functional.fractional_max_pool2d", _FLOATS, "value", _OTHER,
          "the sample has random numbers outside of [0, 1)"),
    # Choices.
    Known("argsort", "bfloat16 bool", "value", _OTHER, _TIES),
    Known("msort sort topk", "bfloat16", "gradient", _OTHER, _TIES),
    Known("histc", "bfloat16", "value", _OTHER,
          "elements beside an edge: calor counts by the edges that it returns"),
    Known("istft", "complex64", "value", _OTHER,
          "of a spectrum that is not Hermitian PyTorch reads one half"),
    Known("linalg.lu linalg.lu_factor linalg.lu_factor_ex lu", "complex64", "value", _OTHER,
          "LAPACK chooses pivots by |re| + |im|, calor by magnitude"),
    Known("logaddexp logcumsumexp", "complex64", "value", _OTHER,
          "the angle is the principal one; exp of both is the same"),
    Known("svd_lowrank", "float32 complex64", "value", _OTHER,
          "both are random approximations"),
    Known("svd_lowrank pca_lowrank", "float32 complex64", "vmap", "draws random numbers",
          "it draws random numbers, and calor.vmap asks how"),
    Known("""special.chebyshev_polynomial_t special.chebyshev_polynomial_u
        special.chebyshev_polynomial_v special.chebyshev_polynomial_w special.hermite_polynomial_h
        special.hermite_polynomial_he special.laguerre_polynomial_l special.legendre_polynomial_p
        special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u
        special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w""",
        "float32", "value", "0.0j at .*, not 1", _DEGREE),
    # Gradients.
    Known("grid_sampler_2d nn.functional.grid_sample", "bfloat16", "gradient", _OTHER,
          "a coordinate on the border of two pixels, where the slope jumps"),
    Known("masked.amax masked.amin", _FLOATS, "gradient", "not nan",
          "PyTorch divides by the number of equal extremes among none"),
    Known("nextafter", _FLOATS, "gradient", "^GradientError: op 'nextafter' has no gradient",
          "it steps through the numbers that a dtype has"),
    Known("nn.functional.ctc_loss", "float32", "gradient", _OTHER,
          "PyTorch's is for operands that a log_softmax made"),
    Known("nn.functional.max_unpool1d nn.functional.max_unpool2d nn.functional.max_unpool3d",
          _FLOATS, "gradient", _OTHER,
          "of several elements at one place the last one wins, and it alone has a gradient"),
)  # fmt: skip


def reason_of(entry: str, dtype: str, step: str, error: str) -> str | None:
    """Return why a mismatch is meant, None if it is not."""
    return next((k.reason for k in KNOWN if k.excuses(entry, dtype, step, error)), None)
