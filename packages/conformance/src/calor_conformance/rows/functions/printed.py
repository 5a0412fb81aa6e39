"""Which arguments of its constructor the line of each module says, by what is printed.

A module is printed as the call that makes it, without arguments that seldom matter.
"""

from __future__ import annotations

from typing import Any, Final

PRINTED: Final[dict[str, str]] = {
    "output_size": (
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d "
        "AdaptiveMaxPool2d AdaptiveMaxPool3d"
    ),
    "p": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "kernel_size stride padding": (
        "AvgPool1d AvgPool2d AvgPool3d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d "
        "MaxUnpool3d"
    ),
    "reduction": (
        "BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss GaussianNLLLoss "
        "HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss MSELoss MarginRankingLoss "
        "MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss PoissonNLLLoss "
        "SmoothL1Loss SoftMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss"
    ),
    "num_features eps momentum": (
        "BatchNorm1d BatchNorm2d BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d"
    ),
    "in1_features in2_features out_features bias": "Bilinear",
    "alpha": "CELU ELU",
    "groups": "ChannelShuffle",
    "in_channels out_channels kernel_size": (
        "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d"
    ),
    "": (
        "CosineSimilarity Hardsigmoid Hardswish Identity LogSigmoid Mish Module ModuleDict "
        "ModuleList PairwiseDistance ReLU ReLU6 SELU Sequential SiLU Sigmoid Softsign Tanh "
        "Tanhshrink"
    ),
    "num_embeddings embedding_dim": "Embedding",
    "num_embeddings embedding_dim mode": "EmbeddingBag",
    "start_axis end_axis": "Flatten",
    "kernel_size output_ratio": "FractionalMaxPool2d FractionalMaxPool3d",
    "approximate": "GELU",
    "axis": "GLU LogSoftmax Softmax Softmin",
    "input_size hidden_size": "GRU GRUCell LSTM LSTMCell RNN RNNCell",
    "num_groups num_channels eps": "GroupNorm",
    "lambd": "Hardshrink Softshrink",
    "min_val max_val": "Hardtanh",
    "norm_type kernel_size stride": "LPPool1d LPPool2d LPPool3d",
    "normalized_shape eps": "LayerNorm RMSNorm",
    "negative_slope": "LeakyReLU",
    "in_features out_features bias": "Linear",
    "size alpha beta k": "LocalResponseNorm",
    "num_parameters": "PReLU",
    "upscale_factor": "PixelShuffle",
    "downscale_factor": "PixelUnshuffle",
    "d_model max_len": "PositionalEncoding",
    "lower upper": "RReLU",
    "beta": "Softplus",
    "threshold value": "Threshold",
    "scale_factor mode": "Upsample",
    "kernel_size dilation padding stride": "Unfold",
    "output_size kernel_size dilation padding stride": "Fold",
}
# Values of arguments that a constructor needs.
GIVEN: Final[dict[str, Any]] = {
    "in_features": 4, "out_features": 3, "in_channels": 4, "out_channels": 6, "kernel_size": 3,
    "num_features": 4, "normalized_shape": (4,), "num_groups": 2, "num_channels": 4,
    "num_embeddings": 5, "embedding_dim": 4, "input_size": 3, "hidden_size": 4, "output_size": 2,
    "embed_dim": 4, "num_heads": 2, "d_model": 4, "padding": 1, "upscale_factor": 2,
    "downscale_factor": 2, "groups": 2, "in1_features": 2, "in2_features": 3, "size": 3, "axis": 1,
    "threshold": 0.5, "value": 2.0, "norm_type": 2.0,
}  # fmt: skip
