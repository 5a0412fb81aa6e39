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

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "NLLLoss",
    "PairwiseDistance",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
]
