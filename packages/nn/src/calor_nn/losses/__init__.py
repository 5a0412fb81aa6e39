"""Losses as modules; each calls the function of its name in ``functional``."""

from calor_nn.losses.classification import (
    CrossEntropyLoss,
    CTCLoss,
    NLLLoss,
)
from calor_nn.losses.distance import (
    CosineEmbeddingLoss,
    CosineSimilarity,
    HingeEmbeddingLoss,
    MarginRankingLoss,
    PairwiseDistance,
    SoftMarginLoss,
    TripletMarginLoss,
)
from calor_nn.losses.elementwise import (
    BCELoss,
    BCEWithLogitsLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    SmoothL1Loss,
)
from calor_nn.losses.margins import (
    GaussianNLLLoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    PoissonNLLLoss,
    TripletMarginWithDistanceLoss,
)

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "PairwiseDistance",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]
