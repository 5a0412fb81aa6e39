"""A language model of two LSTM layers (Zaremba et al., 2014, medium)."""

from typing import Any

from models.base import Library, Model, Size, sized, tokens


def network(library: Library, size: Size) -> Any:
    """Return the model of tokens (N, T) with scores (N, T, words)."""
    nn: Any = library.nn
    width = size["width"]

    class LanguageModel(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(size["words"], width)
            self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
            self.head = nn.Linear(width, size["words"])

        def forward(self, tokens: Any) -> Any:
            made, _ = self.lstm(self.words(tokens))
            return self.head(made)

    return LanguageModel()


MODEL = Model(
    title="LSTM language model",
    network=network,
    inputs=tokens,
    sizes={
        "full": sized(words=10000, tokens=35, width=650),
        "small": sized(words=2003, tokens=16, width=128),
        "tiny": sized(words=31, tokens=5, width=8),
    },
    batches={"inference": 20, "training": 20},
    few=20,
    optimizer="sgd",
)
