"""ResNet-50 (He et al., 2016) from calor's or torch's modules, which have the same names."""

from collections.abc import Sequence
from typing import Any


def resnet50(
    nn: Any, classes: int = 1000, counts: Sequence[int] = (3, 4, 6, 3), narrow: int = 1
) -> Any:
    """Return the network with fresh weights, for images (N, 3, H, W).

    ``counts``: the blocks of each stage. ``narrow`` divides the widths.
    """

    def unit(before: int, after: int, kernel: int, stride: int = 1) -> list[Any]:
        padding = kernel // 2
        convolution = nn.Conv2d(before, after, kernel, stride, padding, bias=False)
        return [convolution, nn.BatchNorm2d(after)]

    class Bottleneck(nn.Module):  # type: ignore[misc]
        def __init__(self, before: int, width: int, stride: int) -> None:
            super().__init__()
            after = 4 * width
            self.main = nn.Sequential(
                *unit(before, width, 1),
                nn.ReLU(),
                *unit(width, width, 3, stride),
                nn.ReLU(),
                *unit(width, after, 1),
            )
            same = before == after and stride == 1
            self.side = nn.Identity() if same else nn.Sequential(*unit(before, after, 1, stride))
            self.relu = nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.relu(self.main(x) + self.side(x))

    before = 64 // narrow
    layers: list[Any] = [*unit(3, before, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for stage, count in enumerate(counts):
        width = (64 << stage) // narrow
        for i in range(count):
            layers.append(Bottleneck(before, width, 2 if i == 0 and stage else 1))
            before = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes)]
    return nn.Sequential(*layers)
