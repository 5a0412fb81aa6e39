"""The functions behind the layers, and those of ``calor`` that go with them, in one place.

>>> import calor
>>> from calor.nn import functional
>>> images = calor.ones((1, 3, 8, 8))
>>> functional.relu(functional.conv2d(images, calor.ones((4, 3, 3, 3)))).shape
(1, 4, 6, 6)
"""

from typing import TYPE_CHECKING

from calor import (
    elu,
    gelu,
    leaky_relu,
    log_softmax,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    tanh,
)
from calor.keywords import explain as _explain
from calor.keywords import explained as _explained
from calor_nn.functional.activation import (
    celu,
    glu,
    hard_sigmoid,
    hard_swish,
    hard_tanh,
    log_sigmoid,
    mish,
    prelu,
    relu6,
    selu,
    softsign,
)
from calor_nn.functional.adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from calor_nn.functional.affine import bilinear, embedding, linear, one_hot
from calor_nn.functional.attention import attention_weights, scaled_dot_product_attention
from calor_nn.functional.bags import embedding_bag
from calor_nn.functional.classification import cross_entropy, nll_loss
from calor_nn.functional.conv import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from calor_nn.functional.ctc import ctc_loss
from calor_nn.functional.distance import (
    cosine_embedding_loss,
    cosine_similarity,
    hinge_embedding_loss,
    margin_ranking_loss,
    normalize,
    pairwise_distance,
    soft_margin_loss,
    triplet_margin_loss,
)
from calor_nn.functional.dropouts import (
    alpha_dropout,
    channel_dropout,
    dropout,
    feature_alpha_dropout,
    gumbel_softmax,
)
from calor_nn.functional.fractional_pool import fractional_max_pool2d, fractional_max_pool3d
from calor_nn.functional.likelihoods import gaussian_nll_loss, poisson_nll_loss
from calor_nn.functional.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    smooth_l1_loss,
)
from calor_nn.functional.lp_pool import lp_pool1d, lp_pool2d, lp_pool3d
from calor_nn.functional.margins import (
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    triplet_margin_with_distance_loss,
)
from calor_nn.functional.norm import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    rms_norm,
)
from calor_nn.functional.padding import pad
from calor_nn.functional.pool import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool,
)
from calor_nn.functional.resize import interpolate
from calor_nn.functional.rotary import rotary_embedding
from calor_nn.functional.sampling import affine_grid, deform_conv2d, grid_sample
from calor_nn.functional.thresholds import (
    hard_shrink,
    rrelu,
    soft_shrink,
    softmin,
    tanh_shrink,
    threshold,
)
from calor_nn.functional.windows import (
    channel_shuffle,
    col2im,
    im2col,
    pixel_shuffle,
    pixel_unshuffle,
)

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "alpha_dropout",
    "attention_weights",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "channel_dropout",
    "channel_shuffle",
    "col2im",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "deform_conv2d",
    "dropout",
    "elu",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hard_shrink",
    "hard_sigmoid",
    "hard_swish",
    "hard_tanh",
    "hinge_embedding_loss",
    "huber_loss",
    "im2col",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "local_response_norm",
    "log_sigmoid",
    "log_softmax",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool",
    "mish",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "rotary_embedding",
    "rrelu",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "soft_shrink",
    "softmax",
    "softmin",
    "softplus",
    "softsign",
    "tanh",
    "tanh_shrink",
    "threshold",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]

if not TYPE_CHECKING:
    # Hidden from type checkers, for which a module with __getattr__ has every attribute.
    def __getattr__(name: str) -> object:
        from calor_nn.migration import missing

        raise missing(__name__, name)


_explain(globals(), "calor_nn.functional.", every=True)
# PyTorch's have inplace=.
relu, silu, elu, leaky_relu = map(_explained, (relu, silu, elu, leaky_relu))  # type: ignore[arg-type]
