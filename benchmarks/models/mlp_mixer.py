"""MLP-Mixer B/16 (Tolstikhin et al., 2021)."""

from typing import Any

from models.base import Library, Model, Size, images, sized


def network(library: Library, size: Size) -> Any:
    """Return the model of images (N, 3, H, W) with scores (N, classes)."""
    nn: Any = library.nn
    width, places = size["width"], (size["image"] // size["patch"]) ** 2

    def mlp(outer: int, inner: int) -> Any:
        return nn.Sequential(nn.Linear(outer, inner), nn.GELU(), nn.Linear(inner, outer))

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.across = nn.LayerNorm(width), mlp(places, width // 2)
            self.norm2, self.within = nn.LayerNorm(width), mlp(width, 4 * width)

        def forward(self, x: Any) -> Any:
            x = x + self.across(self.norm1(x).swapaxes(1, 2)).swapaxes(1, 2)
            return x + self.within(self.norm2(x))

    class Mixer(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, size["patch"], size["patch"])
            self.blocks = nn.Sequential(*(Block() for _ in range(size["layers"])))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, size["classes"])

        def forward(self, x: Any) -> Any:
            x = self.blocks(self.patches(x).flatten(2).swapaxes(1, 2))
            return self.head(self.norm(x).mean(1))

    return Mixer()


MODEL = Model(
    title="MLP-Mixer B/16",
    network=network,
    inputs=images,
    sizes={
        "full": sized(image=224, patch=16, width=768, layers=12, classes=1000),
        "small": sized(image=64, patch=16, width=192, layers=4, classes=100),
        "tiny": sized(image=8, patch=4, width=16, layers=2, classes=10),
    },
    batches={"inference": 8, "training": 32},
)
