"""EfficientNet-B0 (Tan and Le, 2019), without the random dropping of blocks."""

from typing import Any

from models._inverted import excitation, inverted, unit
from models.base import Library, Model, Size, images, sized

# Expansion, after, blocks, stride, kernel.
_STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)


def network(library: Library, size: Size) -> Any:
    """Return the model of images (N, 3, H, W) with scores (N, classes)."""
    nn: Any = library.nn
    layers: list[Any] = unit(nn, 3, 32, 3, 2, nn.SiLU)
    before = 32
    for expansion, after, count, stride, kernel in _STAGES[: size["stages"]]:
        for number in range(count):
            inner = before // 4

            def squeezed(middle: int, inner: int = inner) -> Any:
                return excitation(nn, middle, inner, nn.SiLU, nn.Sigmoid)

            step = 1 if number else stride
            middle = expansion * before
            layers.append(inverted(library, before, middle, after, kernel, step, nn.SiLU, squeezed))
            before = after
    layers += [*unit(nn, before, 4 * before, 1, 1, nn.SiLU), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * before, size["classes"]))


MODEL = Model(
    title="EfficientNet-B0",
    network=network,
    inputs=images,
    sizes={
        "full": sized(image=224, stages=7, classes=1000),
        "small": sized(image=96, stages=7, classes=100),
        "tiny": sized(image=32, stages=2, classes=10),
    },
    batches={"inference": 8, "training": 64},
    optimizer="sgd",
)
