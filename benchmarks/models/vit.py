"""ViT-B/16 (Dosovitskiy et al., 2021)."""

from typing import Any

from models.base import Library, Model, Size, images, sized


def network(library: Library, size: Size) -> Any:
    """Return the model of images (N, 3, H, W) with scores (N, classes)."""
    nn: Any = library.nn
    arrays, width = library.arrays, size["width"]
    places = (size["image"] // size["patch"]) ** 2 + 1

    class ViT(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, size["patch"], size["patch"])
            self.class_token = nn.Parameter(arrays.zeros((1, 1, width)))
            self.positions = nn.Embedding(places, width)
            layer = nn.TransformerEncoderLayer(
                width,
                size["heads"],
                4 * width,
                dropout=0.0,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            self.encoder = library.encoder(layer, size["layers"])
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, size["classes"])

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).swapaxes(1, 2)
            first = arrays.broadcast_to(self.class_token, (x.shape[0], 1, width))
            x = arrays.concat([first, x], axis=1) + self.positions.weight
            return self.head(self.norm(self.encoder(x))[:, 0])

    return ViT()


MODEL = Model(
    title="ViT-B/16",
    network=network,
    inputs=images,
    sizes={
        "full": sized(image=224, patch=16, width=768, heads=12, layers=12, classes=1000),
        "small": sized(image=64, patch=16, width=192, heads=3, layers=4, classes=100),
        "tiny": sized(image=8, patch=4, width=16, heads=2, layers=2, classes=10),
    },
    batches={"inference": 8, "training": 32},
)
