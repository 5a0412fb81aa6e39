"""ConvNeXt-T (Liu et al., 2022): depthwise convolutions of 7, layer norms over channels."""

from typing import Any

from models.base import Library, Model, Size, images, sized

_COUNTS = (3, 3, 9, 3)


def network(library: Library, size: Size) -> Any:
    """Return the model of images (N, 3, H, W) with scores (N, classes)."""
    nn: Any = library.nn
    arrays = library.arrays

    class ChannelNorm(nn.Module):  # type: ignore[misc]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(width, eps=1e-6)

        def forward(self, x: Any) -> Any:
            return arrays.moveaxis(self.norm(arrays.moveaxis(x, 1, -1)), -1, 1)

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
            self.norm = nn.LayerNorm(width, eps=1e-6)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )
            self.scale = nn.Parameter(arrays.full((width,), 0.1))

        def forward(self, x: Any) -> Any:
            y = arrays.moveaxis(self.depthwise(x), 1, -1)
            y = self.scale * self.mlp(self.norm(y))
            return x + arrays.moveaxis(y, -1, 1)

    class Head(nn.Module):  # type: ignore[misc]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, size["classes"])

        def forward(self, x: Any) -> Any:
            return self.linear(self.norm(x.mean((2, 3))))

    width = size["width"]
    layers: list[Any] = [nn.Conv2d(3, width, 4, 4), ChannelNorm(width)]
    for stage in range(size["stages"]):
        if stage:
            layers += [ChannelNorm(width), nn.Conv2d(width, 2 * width, 2, 2)]
            width *= 2
        count = _COUNTS[stage] if size["deep"] else 1
        layers += [Block(width) for _ in range(count)]
    return nn.Sequential(*layers, Head(width))


MODEL = Model(
    title="ConvNeXt-T",
    network=network,
    inputs=images,
    sizes={
        "full": sized(image=224, width=96, stages=4, deep=1, classes=1000),
        "small": sized(image=64, width=48, stages=4, deep=0, classes=100),
        "tiny": sized(image=16, width=8, stages=2, deep=0, classes=10),
    },
    batches={"inference": 8, "training": 32},
)
