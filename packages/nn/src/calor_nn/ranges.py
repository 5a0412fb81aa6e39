"""In which range the numbers lie that constructors of layers and losses take, by their names."""

from __future__ import annotations

from typing import Final

from calor.settings import ANY, COUNT, NOT_NEGATIVE, POSITIVE, SHARE, Range

_DROPOUTS: Final = (
    "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout",
)  # fmt: skip
RANGES: Final[dict[str, Range]] = {
    # Sizes may be 0 where a layer of nothing is a layer; what divides or is repeated may not.
    **dict.fromkeys(
        ("in_features", "out_features", "in1_features", "in2_features", "in_channels",
         "out_channels", "num_features", "num_channels", "input_size", "num_embeddings",
         "embedding_dim", "dim_feedforward", "normalized_shape", "num_layers",
         "num_encoder_layers", "num_decoder_layers", "output_size", "output_padding", "blank"),
        NOT_NEGATIVE,
    ),
    **dict.fromkeys(
        ("kernel_size", "stride", "dilation", "groups", "num_groups", "num_heads", "nhead",
         "d_model", "embed_dim", "kdim", "vdim", "hidden_size", "head_dim", "value_dim", "max_len",
         "batch_size", "dim", "size", "num_parameters", "upscale_factor", "downscale_factor",
         "GRU.num_layers", "LSTM.num_layers", "RNN.num_layers"),
        COUNT,
    ),
    **dict.fromkeys(("dropout", "label_smoothing"), SHARE),
    **{f"{name}.p": SHARE for name in _DROPOUTS},
    **dict.fromkeys(("eps", "layer_norm_eps", "SmoothL1Loss.beta"), NOT_NEGATIVE),
    **dict.fromkeys(("base", "scale_factor", "HuberLoss.delta", "Softplus.beta"), POSITIVE),
    "output_ratio": Range(0, 1, within=True),
    **dict.fromkeys(("Pad.value", "Threshold.value"), ANY),
}  # fmt: skip
