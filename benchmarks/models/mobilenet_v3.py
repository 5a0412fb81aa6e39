"""MobileNetV3-Large (Howard et al., 2019)."""

from typing import Any

from models._inverted import excitation, inverted, rounded, unit
from models.base import Library, Model, Size, images, sized

# Kernel, middle, after, whether excited, whether Hardswish, stride.
_BLOCKS = (
    (3, 16, 16, 0, 0, 1),
    (3, 64, 24, 0, 0, 2),
    (3, 72, 24, 0, 0, 1),
    (5, 72, 40, 1, 0, 2),
    (5, 120, 40, 1, 0, 1),
    (5, 120, 40, 1, 0, 1),
    (3, 240, 80, 0, 1, 2),
    (3, 200, 80, 0, 1, 1),
    (3, 184, 80, 0, 1, 1),
    (3, 184, 80, 0, 1, 1),
    (3, 480, 112, 1, 1, 1),
    (3, 672, 112, 1, 1, 1),
    (5, 672, 160, 1, 1, 2),
    (5, 960, 160, 1, 1, 1),
    (5, 960, 160, 1, 1, 1),
)


def network(library: Library, size: Size) -> Any:
    """Return the model of images (N, 3, H, W) with scores (N, classes)."""
    nn: Any = library.nn

    def squeezed(middle: int) -> Any:
        return excitation(nn, middle, rounded(middle / 4), nn.ReLU, nn.Hardsigmoid)

    layers: list[Any] = unit(nn, 3, 16, 3, 2, nn.Hardswish)
    before = 16
    for kernel, middle, after, excited, smooth, stride in _BLOCKS[: size["blocks"]]:
        act = nn.Hardswish if smooth else nn.ReLU
        layers.append(
            inverted(
                library, before, middle, after, kernel, stride, act, squeezed if excited else None
            )
        )
        before = after
    layers += [*unit(nn, before, 6 * before, 1, 1, nn.Hardswish), nn.AdaptiveAvgPool2d(1)]
    head = [nn.Linear(6 * before, 8 * before), nn.Hardswish()]
    return nn.Sequential(*layers, nn.Flatten(), *head, nn.Linear(8 * before, size["classes"]))


MODEL = Model(
    title="MobileNetV3-L",
    network=network,
    inputs=images,
    sizes={
        "full": sized(image=224, blocks=15, classes=1000),
        "small": sized(image=96, blocks=15, classes=100),
        "tiny": sized(image=32, blocks=4, classes=10),
    },
    batches={"inference": 8, "training": 64},
    optimizer="sgd",
)
