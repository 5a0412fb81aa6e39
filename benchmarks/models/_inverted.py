"""Inverted residuals with squeeze and excitation, of which MobileNetV3 and EfficientNet consist."""

from typing import Any

from models.base import Library


def unit(
    nn: Any, before: int, after: int, kernel: int, stride: int, act: Any, groups: int = 1
) -> list[Any]:
    """Return a convolution, its norm and an activation, None for none."""
    convolution = nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(after), *([act()] if act else [])]


def rounded(width: float) -> int:
    """Return a width as a multiple of 8 that is not below nine tenths of it."""
    found = max(8, int(width + 4) // 8 * 8)
    return found if found >= 0.9 * width else found + 8


def excitation(nn: Any, width: int, inner: int, act: Any, gate: Any) -> Any:
    """Return a module that scales channels by what their means say."""

    class Excitation(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.pool = nn.AdaptiveAvgPool2d(1)
            self.gates = nn.Sequential(
                nn.Conv2d(width, inner, 1), act(), nn.Conv2d(inner, width, 1), gate()
            )

        def forward(self, x: Any) -> Any:
            return x * self.gates(self.pool(x))

    return Excitation()


def inverted(
    library: Library,
    before: int,
    middle: int,
    after: int,
    kernel: int,
    stride: int,
    act: Any,
    squeezed: Any,
) -> Any:
    """Return a block; ``squeezed`` makes the excitation of the middle, or is None."""
    nn: Any = library.nn

    class Inverted(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            layers = [] if middle == before else unit(nn, before, middle, 1, 1, act)
            layers += unit(nn, middle, middle, kernel, stride, act, groups=middle)
            layers += [squeezed(middle)] if squeezed else []
            layers += unit(nn, middle, after, 1, 1, None)
            self.block = nn.Sequential(*layers)

        def forward(self, x: Any) -> Any:
            made = self.block(x)
            return x + made if before == after and stride == 1 else made

    return Inverted()
