"""Public functions of packages without a row of drawn calls, and why."""

from __future__ import annotations

from typing import Final

_OF_NN: Final = {
    "its own package has rows of it, with oracles from place to place": (
        "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d "
        "avg_pool2d avg_pool3d max_pool2d max_pool3d lp_pool1d lp_pool2d lp_pool3d max_unpool "
        "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d col2im "
        "im2col deform_conv2d affine_grid grid_sample interpolate bilinear embedding_bag "
        "ctc_loss cosine_embedding_loss multilabel_margin_loss prelu rotary_embedding "
        "triplet_margin_with_distance_loss"
    ),
    "the op has rows here": ("attention_weights scaled_dot_product_attention gelu pad"),
    "it draws random numbers": (
        "alpha_dropout channel_dropout dropout feature_alpha_dropout fractional_max_pool2d "
        "fractional_max_pool3d gumbel_softmax rrelu"
    ),
}
REASONS: Final[dict[str, str]] = {
    **{
        f"calor_nn.functional.{name}": reason
        for reason, names in _OF_NN.items()
        for name in names.split()
    },
    "calor_linalg.LinAlgError": "an error",
    "calor_linalg.cholesky_ex": "cholesky, which has a row, and where it failed",
    "calor_linalg.cholesky_solve": "systems of solve_triangular, which has a row",
    "calor_linalg.eig": "rows of linalg compare it",
    "calor_linalg.eigvals": "rows of linalg compare it",
    "calor_linalg.geqrf": "qr by parts, which has a row",
    "calor_linalg.householder_product": "qr by parts, which has a row",
    "calor_linalg.ldl_factor": "rows of linalg compare it",
    "calor_linalg.ldl_solve": "rows of linalg compare it",
    "calor_linalg.lu": "lu_factor, which has a row with lu_solve",
    "calor_linalg.lu_factor": "has a row with lu_solve",
    "calor_linalg.lu_unpack": "lu_factor, which has a row with lu_solve",
    "calor_linalg.matmul": "calor's, which has a row",
    "calor_linalg.ormqr": "qr by parts, which has a row",
    "calor_linalg.pca_lowrank": "draws random numbers",
    "calor_linalg.svd_lowrank": "draws random numbers",
    "calor_linalg.tensordot": "calor's, which has a row",
    "calor_linalg.tensorinv": "inv of a reshaped tensor, which has a row",
    "calor_linalg.tensorsolve": "solve of a reshaped tensor, which has a row",
    "calor_numerics.random": "a module; its numbers are asked for by checks of distributions",
    "calor_numerics.signal": "a module; its transforms are those of Fourier",
    "calor_numerics.apply_along_axis": "calls a function of the caller",
    "calor_numerics.cartesian_prod": "a stack of meshgrid, which has a row",
    "calor_numerics.complex": "joins parts; rows of complex numbers do",
    "calor_numerics.geomspace": "powers of linspace, which has a row",
    "calor_numerics.histogramdd": "counts of histogram's edges by bincount, which have rows",
    "calor_numerics.logspace": "powers of linspace, which has a row",
    "calor_numerics.polar": "products of cos and sin, which have rows",
    "calor_numerics.put": "scatter_nd of a flat tensor, which has a row",
}
