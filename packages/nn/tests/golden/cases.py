"""The rows: functions and layers by PyTorch's names, their arguments, and numbers to put in.

Numbers are sines of whole numbers, so they are the same wherever the rows are read.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def numbers(seed: int, *shape: int) -> Array:
    """Return float64 numbers within ±2 that look irregular."""
    count = int(np.prod(shape))
    return np.asarray(2 * np.sin((np.arange(count) + 1.0) * (1.37 + 0.11 * seed)).reshape(shape))


def positive(seed: int, *shape: int) -> Array:
    """Return float64 numbers within (0, 1)."""
    return np.asarray(0.5 + 0.24 * numbers(seed, *shape))


def whole(seed: int, below: int, *shape: int) -> Array:
    """Return int64 numbers of [0, below)."""
    return np.asarray(np.floor(positive(seed, *shape) * below).astype(np.int64))


def weight(name: str, shape: tuple[int, ...]) -> Array:
    """Return the numbers of a parameter or buffer, from its name alone."""
    made = 0.25 * numbers(zlib.crc32(name.encode()) % 97, *shape)
    if name.endswith("num_batches_tracked"):
        return np.asarray(3, np.int64)
    return np.abs(made) + 0.5 if name.endswith("running_var") else made


@dataclass(frozen=True)
class Function:
    """A call of ``torch.nn.functional``; ``ours`` is calor's name, ``other`` renames arguments."""

    torch: str
    inputs: tuple[Array, ...]
    arguments: dict[str, Any] = field(default_factory=dict)
    ours: str = ""
    other: dict[str, str] = field(default_factory=dict)

    def calor_arguments(self) -> dict[str, Any]:
        """Return the arguments by calor's names."""
        return {self.other.get(k, k): v for k, v in self.arguments.items() if v is not None}


@dataclass(frozen=True)
class Layer:
    """A layer of ``torch.nn``, called once; ``calls`` are further arguments, theirs and ours."""

    torch: str
    arguments: tuple[Any, ...]
    inputs: tuple[Array, ...]
    options: dict[str, Any] = field(default_factory=dict)
    ours: str = ""
    training: bool = True
    calls: tuple[dict[str, Any], dict[str, Any]] = field(default_factory=lambda: ({}, {}))
    # The inputs after the first are a state, given as one tuple.
    state: bool = False


_AXIS = {"dim": "axis"}
_X = numbers(0, 2, 3, 4)
FUNCTIONS: list[Function] = [
    *(
        Function(name, (3 * _X,), ours=ours)
        for name, ours in [
            ("relu", "relu"), ("relu6", "relu6"), ("hardtanh", "hard_tanh"), ("elu", "elu"),
            ("leaky_relu", "leaky_relu"), ("selu", "selu"), ("gelu", "gelu"), ("silu", "silu"),
            ("mish", "mish"), ("softplus", "softplus"), ("softsign", "softsign"),
            ("logsigmoid", "log_sigmoid"), ("hardswish", "hard_swish"), ("sigmoid", "sigmoid"),
        ]
    ),
    Function("gelu", (_X,), {"approximate": "tanh"}),
    Function("glu", (_X,), {"dim": -1}, other=_AXIS),
    Function("prelu", (_X, numbers(1, 3))),
    Function("softmax", (_X,), {"dim": 1}, other=_AXIS),
    Function("log_softmax", (_X,), {"dim": 2}, other=_AXIS),
    Function("normalize", (_X,), {"p": 2.0, "dim": 1}, other=_AXIS),
    Function("conv1d", (numbers(0, 2, 4, 6), numbers(1, 6, 2, 3), numbers(2, 6)),
             {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}),
    Function("conv2d", (numbers(0, 1, 2, 5, 4), numbers(1, 3, 2, 3, 2), numbers(2, 3)),
             {"padding": "same"}),
    Function("conv3d", (numbers(0, 1, 2, 3, 3, 3), numbers(1, 2, 2, 2, 2, 2), numbers(2, 2)),
             {"stride": (2, 1, 1), "padding": 1}),
    Function("conv_transpose1d", (numbers(0, 1, 2, 4), numbers(1, 2, 3, 3), numbers(2, 3)),
             {"stride": 3, "padding": 1, "output_padding": 2}),
    Function("conv_transpose2d", (numbers(0, 1, 2, 3, 3), numbers(1, 2, 1, 2, 2), numbers(2, 2)),
             {"stride": 2, "groups": 2, "dilation": 2}),
    *(
        Function("max_pool2d", (numbers(3, 1, 2, 6, 5),), a, other={})
        for a in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1,
                                       "ceil_mode": True})
    ),
    *(
        Function("avg_pool2d", (numbers(3, 1, 2, 6, 5),), {"kernel_size": 3, "stride": 2,
                 "padding": 1, "ceil_mode": ceil, "count_include_pad": padded})
        for ceil in (False, True)
        for padded in (False, True)
    ),
    Function("adaptive_avg_pool2d", (numbers(3, 1, 2, 6, 5),), {"output_size": (4, 2)}),
    Function("adaptive_max_pool1d", (numbers(3, 1, 2, 7),), {"output_size": 3}),
    Function("lp_pool1d", (positive(3, 1, 2, 7),), {"norm_type": 2.0, "kernel_size": 3}),
    *(
        Function("interpolate", (numbers(4, 1, 2, 4, 3),), {"size": (6, 7), "mode": mode,
                 "align_corners": align})
        for mode, align in [("nearest", None), ("bilinear", False), ("bilinear", True),
                            ("bicubic", False), ("bicubic", True), ("area", None)]
    ),
    Function("interpolate", (numbers(4, 1, 2, 5),), {"scale_factor": 1.7, "mode": "linear",
             "align_corners": False}),
    Function("unfold", (numbers(4, 1, 2, 4, 3),), {"kernel_size": 2, "padding": 1},
             ours="im2col"),
    Function("fold", (numbers(4, 1, 8, 6),), {"output_size": (4, 3), "kernel_size": 2},
             ours="col2im"),
    Function("pixel_shuffle", (numbers(4, 1, 8, 2, 3),), {"upscale_factor": 2},
             other={"upscale_factor": "factor"}),
    Function("embedding", (whole(0, 5, 2, 3), numbers(1, 5, 2)), {"padding_idx": 1},
             other={"padding_idx": "padding_index"}),
    Function("bilinear", (numbers(0, 2, 3), numbers(1, 2, 4), numbers(2, 5, 3, 4), numbers(3, 5))),
    *(
        Function("cross_entropy", (numbers(5, 4, 3, 2), whole(1, 3, 4, 2)), {"reduction": r,
                 "label_smoothing": s, "ignore_index": 1})
        for r in ("mean", "none")
        for s in (0.0, 0.2)
    ),
    Function("cross_entropy", (numbers(5, 4, 3), positive(1, 4, 3))),
    *(
        Function(name, (numbers(5, 3, 4), numbers(6, 3, 4)), {"reduction": "sum"})
        for name in ("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss")
    ),
    Function("binary_cross_entropy", (positive(5, 3, 4), positive(6, 3, 4))),
    Function("binary_cross_entropy_with_logits", (numbers(5, 3, 4), positive(6, 3, 4))),
    Function("kl_div", (numbers(5, 3, 4), positive(6, 3, 4)), {"reduction": "batchmean"}),
    Function("triplet_margin_loss", (numbers(1, 3, 4), numbers(2, 3, 4), numbers(3, 3, 4)),
             {"swap": True}),
    Function("cosine_similarity", (numbers(1, 3, 4), numbers(2, 3, 4)), {"dim": 0}, other=_AXIS),
    *(
        Function(name, (_X,), ours=ours)
        for name, ours in [("hardshrink", "hard_shrink"), ("softshrink", "soft_shrink"),
                           ("tanhshrink", "tanh_shrink"), ("rrelu", "rrelu")]
    ),
    Function("threshold", (_X,), {"threshold": 0.1, "value": 20.0}),
    Function("softmin", (_X,), {"dim": 1}, other=_AXIS),
    Function("channel_shuffle", (numbers(1, 2, 6, 3),), {"groups": 3}),
    Function("gaussian_nll_loss", (_X, numbers(5, 2, 3, 4), positive(6, 2, 3, 1)), {"full": True}),
    Function("gaussian_nll_loss", (_X, numbers(5, 2, 3, 4), positive(6, 2, 3)),
             {"reduction": "none", "eps": 0.5}),
    *(
        Function("poisson_nll_loss", (positive(5, 3, 4), 4 * positive(6, 3, 4)),
                 {"log_input": log, "full": full, "reduction": "sum"})
        for log, full in [(True, False), (True, True), (False, True)]
    ),
    *(
        Function("multi_margin_loss", (numbers(5, 4, 3), whole(1, 3, 4)),
                 {"p": p, "margin": 0.7, "reduction": "none"})
        for p in (1, 2)
    ),
    Function("multilabel_margin_loss", (numbers(5, 3, 4), np.array(
        [[1, 2, -1, 3], [-1, 1, 1, 1], [0, 3, 2, 1]])), {"reduction": "none"}),
    Function("multilabel_soft_margin_loss", (numbers(5, 3, 4), whole(1, 2, 3, 4) * 1.0,
                                             positive(2, 4))),
    Function("triplet_margin_with_distance_loss",
             (numbers(1, 3, 4), numbers(2, 3, 4), numbers(3, 3, 4)), {"swap": True}),
    *(
        Function("embedding_bag", inputs, {"mode": mode, "padding_idx": 2},
                 other={"padding_idx": "padding_index"})
        for mode in ("sum", "mean", "max")
        for inputs in [(whole(0, 5, 3, 4), numbers(1, 5, 2)),
                       (whole(0, 5, 9), numbers(1, 5, 2), np.array([0, 2, 2, 5]))]
    ),
    *(
        Function("grid_sample", (numbers(0, 2, 3, 5, 4), numbers(1, 2, 4, 3, 2)),
                 {"mode": mode, "padding_mode": border, "align_corners": align})
        for mode in ("bilinear", "nearest", "bicubic")
        for border, align in [("zeros", False), ("border", True), ("reflection", False)]
    ),
    Function("grid_sample", (numbers(0, 1, 2, 3, 5, 4), numbers(1, 1, 2, 3, 4, 3)),
             {"align_corners": True}),
    *(
        Function("interpolate", (numbers(4, 1, 2, 7, 9),), {"mode": mode, "antialias": True,
                 "align_corners": align, **sizes})
        for mode, align, sizes in [("bilinear", False, {"size": (3, 4)}),
                                   ("bilinear", True, {"size": (3, 14)}),
                                   ("bicubic", False, {"scale_factor": (0.4, 1.3)})]
    ),
    *(
        Function("affine_grid", (numbers(0, 2, 2, 3),), {"size": (2, 1, 3, 4), "align_corners": a})
        for a in (False, True)
    ),
]  # fmt: skip

_QKV = (numbers(0, 2, 3, 8), numbers(1, 2, 5, 8), numbers(2, 2, 5, 8))
_SEEN = np.array([[True, True, True, True, False], [True, False, True, True, True]])
_BLOCK: dict[str, Any] = {"dim_feedforward": 6, "dropout": 0.0, "batch_first": True}
LAYERS: list[Layer] = [
    Layer("Linear", (4, 3), (numbers(0, 2, 4),)),
    Layer("Bilinear", (4, 3, 2), (numbers(0, 2, 4), numbers(1, 2, 3))),
    Layer("Embedding", (5, 3), (whole(0, 5, 2, 3),)),
    Layer("Conv1d", (2, 4, 3), (numbers(0, 2, 2, 6),), {"padding": 1, "padding_mode": "circular"}),
    Layer("Conv2d", (2, 4, 3), (numbers(0, 1, 2, 5, 5),), {"stride": 2, "groups": 2}),
    Layer("Conv3d", (1, 2, 2), (numbers(0, 1, 1, 3, 3, 3),), {"bias": False}),
    Layer("ConvTranspose2d", (2, 4, 3), (numbers(0, 1, 2, 3, 3),), {"stride": 2, "padding": 1}),
    Layer("LayerNorm", ((3, 4),), (numbers(0, 2, 3, 4),)),
    Layer("RMSNorm", (4,), (numbers(0, 2, 3, 4),), {"eps": 1e-4}),
    Layer("GroupNorm", (2, 4), (numbers(0, 2, 4, 3),)),
    Layer("InstanceNorm2d", (3,), (numbers(0, 2, 3, 3, 2),), {"affine": True}),
    *(
        Layer(f"BatchNorm{rank}d", (3,), (numbers(0, 4, 3, *(2,) * (rank - (rank == 1))),),
              training=training)
        for rank in (1, 2, 3)
        for training in (True, False)
    ),
    Layer("PReLU", (3,), (numbers(0, 2, 3, 4),)),
    *(
        Layer(kind, (3, 4), (numbers(0, 5, 2, 3),), options)
        for kind in ("RNN", "LSTM", "GRU")
        for options in ({}, {"num_layers": 2, "bidirectional": True}, {"bias": False})
    ),
    Layer("RNN", (3, 4), (numbers(0, 2, 5, 3),), {"nonlinearity": "relu", "batch_first": True}),
    Layer("LSTM", (3, 4), (numbers(0, 5, 2, 3), numbers(1, 1, 2, 4), numbers(2, 1, 2, 4)),
          state=True),
    Layer("RNNCell", (3, 4), (numbers(0, 2, 3), numbers(1, 2, 4)), {"nonlinearity": "relu"}),
    Layer("GRUCell", (3, 4), (numbers(0, 2, 3), numbers(1, 2, 4))),
    Layer("LSTMCell", (3, 4), (numbers(0, 2, 3), numbers(1, 2, 4), numbers(2, 2, 4)), state=True),
    Layer("MultiheadAttention", (8, 2), _QKV, {"batch_first": True}, "MultiHeadAttention",
          calls=({"average_attn_weights": False}, {"return_weights": True})),
    Layer("MultiheadAttention", (8, 2), _QKV, {"batch_first": True}, "MultiHeadAttention",
          calls=({"key_padding_mask": ~_SEEN, "need_weights": False}, {"key_mask": _SEEN})),
    Layer("MultiheadAttention", (8, 4), (_QKV[0], numbers(1, 2, 5, 3), numbers(2, 2, 5, 6)),
          {"batch_first": True, "kdim": 3, "vdim": 6}, "MultiHeadAttention",
          calls=({"need_weights": False}, {})),
    *(
        Layer("TransformerEncoderLayer", (8, 2), (numbers(0, 2, 4, 8),),
              {**_BLOCK, "norm_first": first, "activation": activation},
              calls=({"src_mask": ~np.tri(4, dtype=bool)}, {"causal": True}))
        for first, activation in [(False, "relu"), (True, "gelu")]
    ),
    Layer("TransformerDecoderLayer", (8, 2), (numbers(0, 2, 3, 8), numbers(1, 2, 4, 8)), _BLOCK,
          calls=({"tgt_mask": ~np.tri(3, dtype=bool)}, {"causal": True})),
    Layer("Transformer", (8, 2, 1, 2), (numbers(0, 2, 4, 8), numbers(1, 2, 3, 8)), _BLOCK),
]  # fmt: skip
