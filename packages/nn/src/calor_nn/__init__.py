"""Modules, initial values, losses and weight files for calor.

>>> import calor
>>> from calor import nn
>>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
>>> model(calor.ones((3, 4))).shape
(3, 2)
"""

from typing import TYPE_CHECKING

from calor.keywords import explain_methods as _explain_methods
from calor.settings import check_constructors as _check_constructors
from calor_nn import functional, init, parametrize
from calor_nn.activation import (
    CELU,
    ELU,
    GELU,
    SELU,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softplus,
    Softsign,
    Tanh,
)
from calor_nn.adaptive_pool import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
)
from calor_nn.attention import MultiHeadAttention, PositionalEncoding
from calor_nn.cache import KVCache, RotaryEmbedding
from calor_nn.cells import GRUCell, LSTMCell, RNNCell
from calor_nn.containers import ModuleDict, ModuleList, Sequential
from calor_nn.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from calor_nn.dropout import Dropout, Dropout1d, Dropout2d, Dropout3d
from calor_nn.embedding import Embedding, EmbeddingBag
from calor_nn.fractional_pool import FractionalMaxPool2d, FractionalMaxPool3d
from calor_nn.linear import Bilinear, Flatten, Identity, Linear, Unflatten
from calor_nn.loading import LoadError, LoadReport
from calor_nn.losses import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CosineSimilarity,
    CrossEntropyLoss,
    CTCLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MarginRankingLoss,
    MSELoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    NLLLoss,
    PairwiseDistance,
    PoissonNLLLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from calor_nn.module import Module, Parameter
from calor_nn.norm import GroupNorm, LayerNorm, RMSNorm
from calor_nn.padding import Pad
from calor_nn.pool import (
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    LPPool1d,
    LPPool2d,
    LPPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from calor_nn.ranges import RANGES as _RANGES
from calor_nn.recurrent import GRU, LSTM, RNN
from calor_nn.resize import Fold, PixelShuffle, PixelUnshuffle, Unfold, Upsample
from calor_nn.running_norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from calor_nn.softmax import GLU, LogSoftmax, Softmax
from calor_nn.summary import summary
from calor_nn.thresholds import (
    AlphaDropout,
    ChannelShuffle,
    FeatureAlphaDropout,
    Hardshrink,
    LocalResponseNorm,
    RReLU,
    Softmin,
    Softshrink,
    Tanhshrink,
    Threshold,
)
from calor_nn.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from calor_nn.unpool import MaxUnpool1d, MaxUnpool2d, MaxUnpool3d
from calor_nn.weights import from_torch_state_dict, load_weights, save_weights

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "GRU",
    "LSTM",
    "RNN",
    "SELU",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AlphaDropout",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "CTCLoss",
    "ChannelShuffle",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "Embedding",
    "EmbeddingBag",
    "FeatureAlphaDropout",
    "Flatten",
    "Fold",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "GRUCell",
    "GaussianNLLLoss",
    "GroupNorm",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "Identity",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "KLDivLoss",
    "KVCache",
    "L1Loss",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "LSTMCell",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LoadError",
    "LoadReport",
    "LocalResponseNorm",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiHeadAttention",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "PReLU",
    "Pad",
    "PairwiseDistance",
    "Parameter",
    "PixelShuffle",
    "PixelUnshuffle",
    "PoissonNLLLoss",
    "PositionalEncoding",
    "RMSNorm",
    "RNNCell",
    "RReLU",
    "ReLU",
    "ReLU6",
    "RotaryEmbedding",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
    "Unflatten",
    "Unfold",
    "Upsample",
    "from_torch_state_dict",
    "functional",
    "init",
    "load_weights",
    "parametrize",
    "save_weights",
    "summary",
]

_KINDS = [found for found in vars().values() if isinstance(found, type)]
for _kind in {inside for found in _KINDS for inside in found.__mro__}:
    if _kind.__module__.startswith("calor_nn."):
        _explain_methods(_kind, made=issubclass(_kind, Module))
_check_constructors([kind for kind in _KINDS if issubclass(kind, Module)], "calor_nn.", _RANGES)

if not TYPE_CHECKING:
    # Hidden from type checkers, for which a module with __getattr__ has every attribute.
    def __getattr__(name: str) -> object:
        from calor_nn.migration import missing

        raise missing(__name__, name)
