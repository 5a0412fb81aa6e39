"""Blocks on images (N, C, H, W), which keep the shape, and what changes it between stages."""

from __future__ import annotations

from typing import Any

from models.drawn.draft import Draft


def norm(draft: Draft, kind: str, channels: int) -> list[Any]:
    """Return a norm of channels as a list, which is empty for "none"."""
    nn = draft.nn
    if kind == "batch":
        return [nn.BatchNorm2d(channels)]
    if kind == "group":
        return [nn.GroupNorm(draft.divisor(channels, 32), channels)]
    if kind == "instance":
        return [nn.InstanceNorm2d(channels, affine=True)]
    if kind == "layer":
        moved = draft.arrays.moveaxis
        run = lambda m, x: moved(m.norm(moved(x, 1, -1)), -1, 1)  # noqa: E731
        return [draft.module(run, norm=nn.LayerNorm(channels))]
    return []


class Style:
    """What the blocks of a network have in common: the norm, the activation, the kernel."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.norm = draft.one("batch", "batch", "batch", "group", "instance", "layer", "none")
        self.activation, self.kernel = draft.activation(), draft.one(3, 3, 3, 5, 7)
        self.before = draft.chance(0.25)
        draft.say(f"{self.norm} norm{' first' if self.before else ''},", f"{self.activation},")

    def act(self) -> Any:
        """Return the activation."""
        return getattr(self.draft.nn, self.activation)()

    def conv(
        self, before: int, after: int, kernel: Any = None, *, act: bool = True, **given: Any
    ) -> list[Any]:
        """Return a convolution of the same size with its norm and activation."""
        size = self.kernel if kernel is None else kernel
        sizes = size if isinstance(size, tuple) else (size, size)
        spread = given.get("dilation", 1)
        padding = tuple(spread * (k - 1) // 2 for k in sizes)
        bias = self.norm in ("none", "layer")
        layer = self.draft.nn.Conv2d(before, after, size, padding=padding, bias=bias, **given)
        acts = [self.act()] if act else []
        if self.before:
            return [*norm(self.draft, self.norm, before), *acts, layer]
        return [layer, *norm(self.draft, self.norm, after), *acts]


def plain(style: Style, width: int) -> Any:
    """Return convolutions one after the other."""
    return style.draft.chain(
        [part for _ in range(style.draft.one(1, 2)) for part in style.conv(width, width)]
    )


def basic(style: Style, width: int) -> Any:
    """Return a residual block of two convolutions (He et al., 2016)."""
    draft = style.draft
    inner = draft.chain([*style.conv(width, width), *style.conv(width, width, act=style.before)])
    last = draft.nn.Identity() if style.before else style.act()
    return draft.chain([draft.residual(inner), last])


def bottleneck(style: Style, width: int) -> Any:
    """Return a residual block with a narrow, perhaps grouped, middle (Xie et al., 2017)."""
    draft = style.draft
    middle = max(4, width // draft.one(2, 4))
    groups = draft.divisor(middle, 32) if draft.chance(0.4) else 1
    parts = [
        *style.conv(width, middle, 1),
        *style.conv(middle, middle, groups=groups),
        *style.conv(middle, width, 1, act=style.before),
    ]
    return draft.residual(draft.chain(parts))


def excited(draft: Draft, width: int) -> Any:
    """Return channels scaled by what their means say (Hu et al., 2018)."""
    nn, few = draft.nn, max(4, width // draft.one(4, 8, 16))
    gate = draft.one(nn.Sigmoid, nn.Hardsigmoid)()
    layers = [nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, few, 1), nn.ReLU()]
    inner = draft.chain([*layers, nn.Conv2d(few, width, 1), gate])
    return draft.module(lambda m, x: x * m.gate(x), gate=inner)


def inverted(style: Style, width: int) -> Any:
    """Return a residual block with a wide depthwise middle (Sandler et al., 2018)."""
    draft, wide = style.draft, width * style.draft.one(2, 3, 4)
    parts = [*style.conv(width, wide, 1), *style.conv(wide, wide, groups=wide)]
    parts += [excited(draft, wide)] if draft.chance(0.5) else []
    return draft.residual(draft.chain([*parts, *style.conv(wide, width, 1, act=False)]))


def modern(style: Style, width: int) -> Any:
    """Return a depthwise convolution and an MLP of channels (Liu et al., 2022)."""
    draft, nn, moved = style.draft, style.draft.nn, style.draft.arrays.moveaxis
    size, wide = draft.one(5, 7, 9), width * draft.one(2, 4)
    parts = {
        "spatial": nn.Conv2d(width, width, size, padding=size // 2, groups=width),
        "mlp": draft.chain(
            [nn.LayerNorm(width), nn.Linear(width, wide), style.act(), nn.Linear(wide, width)]
        ),
        "scale": nn.Parameter(draft.arrays.full((width,), 0.3)),
    }

    def run(m: Any, x: Any) -> Any:
        return x + moved(m.scale * m.mlp(moved(m.spatial(x), 1, -1)), -1, 1)

    return draft.module(run, **parts)


def dense(style: Style, width: int) -> Any:
    """Return layers that see all before them (Huang et al., 2017), narrowed at the end."""
    draft, concat = style.draft, style.draft.arrays.concat
    growth, now, layers = max(4, width // 4), width, []
    for _ in range(draft.one(2, 3)):
        layers.append(draft.chain(style.conv(now, growth)))
        now += growth

    def run(m: Any, x: Any) -> Any:
        for layer in m.layers:
            x = concat([x, layer(x)], axis=1)
        return m.last(x)

    parts = {"layers": draft.nn.ModuleList(layers), "last": draft.chain(style.conv(now, width, 1))}
    return draft.module(run, **parts)


def branched(style: Style, width: int) -> Any:
    """Return branches of several windows side by side (Szegedy et al., 2015)."""
    draft, nn, concat = style.draft, style.draft.nn, style.draft.arrays.concat
    few = max(2, width // 4)
    pool = draft.one(nn.MaxPool2d, nn.AvgPool2d)(3, 1, 1)
    branches = [
        draft.chain(style.conv(width, few, 1)),
        draft.chain([*style.conv(width, few, 1), *style.conv(few, few, 3)]),
        draft.chain(
            [
                *style.conv(width, few, 1),
                *style.conv(few, few, (1, 5)),
                *style.conv(few, few, (5, 1)),
            ]
        ),
        draft.chain([pool, *style.conv(width, width - 3 * few, 1)]),
    ]
    run = lambda m, x: concat([branch(x) for branch in m.branches], axis=1)  # noqa: E731
    return draft.module(run, branches=nn.ModuleList(branches))


def dilated(style: Style, width: int) -> Any:
    """Return convolutions of several dilations, added up (Chen et al., 2018)."""
    draft = style.draft
    rates = draft.one((1, 2), (1, 3, 6), (2, 4))
    branches = [draft.chain(style.conv(width, width, 3, dilation=rate)) for rate in rates]

    def run(m: Any, x: Any) -> Any:
        return x + sum(branch(x) for branch in m.branches)

    return draft.module(run, branches=draft.nn.ModuleList(branches))


def shuffled(style: Style, width: int) -> Any:
    """Return half of the channels convolved and mixed with the others (Ma et al., 2018)."""
    draft, nn, concat = style.draft, style.draft.nn, style.draft.arrays.concat
    half = width // 2
    inner = draft.chain(
        [
            *style.conv(half, half, 1),
            *style.conv(half, half, groups=half, act=False),
            *style.conv(half, half, 1),
        ]
    )

    def run(m: Any, x: Any) -> Any:
        kept, changed = x[:, :half], x[:, half:]
        return m.shuffle(concat([kept, m.inner(changed)], axis=1))

    return draft.module(run, inner=inner, shuffle=nn.ChannelShuffle(2))


def gated(style: Style, width: int) -> Any:
    """Return a convolution that a second one gates (Dauphin et al., 2017)."""
    draft, nn, size = style.draft, style.draft.nn, style.kernel
    layer = nn.Conv2d(width, 2 * width, size, padding=size // 2)
    return draft.residual(draft.chain([layer, nn.GLU(1), *norm(draft, style.norm, width)]))


def attended(style: Style, width: int) -> Any:
    """Return where and which channels matter (Woo et al., 2018)."""
    draft, nn, arrays = style.draft, style.draft.nn, style.draft.arrays
    where = nn.Conv2d(2, 1, 7, padding=3)

    def run(m: Any, x: Any) -> Any:
        x = m.channels(m.inner(x))
        mean, most = x.mean(1, keepdims=True), draft.library.largest(x, 1, keepdims=True)
        return x * arrays.sigmoid(m.where(arrays.concat([mean, most], axis=1)))

    inner = draft.chain(style.conv(width, width))
    return draft.module(run, inner=inner, channels=excited(draft, width), where=where)


BLOCKS = (
    *(plain, basic, bottleneck, inverted, modern, dense, branched, dilated, shuffled, gated),
    attended,
)


def shrink(style: Style, before: int, after: int, side: int) -> tuple[Any, int]:
    """Return a layer that halves the height and the width, and the side of what it returns."""
    draft, nn = style.draft, style.draft.nn
    kind = draft.one("conv", "conv", "patch", "max", "average", *["unshuffle"] * (1 - side % 2))
    draft.say(f"shrunk by {kind} to {after};")
    if kind == "conv":
        layer = nn.Conv2d(before, after, 3, 2, 1, bias=style.norm == "none")
        parts = [layer, *norm(draft, style.norm, after), style.act()]
        return draft.chain(parts), (side + 1) // 2
    if kind == "patch":
        parts = [*norm(draft, style.norm, before), nn.Conv2d(before, after, 2, 2)]
        return draft.chain(parts), side // 2
    if kind == "unshuffle":
        return draft.chain([nn.PixelUnshuffle(2), nn.Conv2d(4 * before, after, 1)]), side // 2
    window = draft.one((2, 2, 0), (3, 2, 1))
    pool = (nn.MaxPool2d if kind == "max" else nn.AvgPool2d)(*window)
    left = (side + 2 * window[2] - window[0]) // 2 + 1
    return draft.chain([*style.conv(before, after, 1), pool]), left


def grow(style: Style, before: int, after: int) -> Any:
    """Return a layer that doubles the height and the width."""
    draft, nn = style.draft, style.draft.nn
    kind = draft.one("transposed", "nearest", "bilinear", "shuffle")
    draft.say(f"grown by {kind} to {after};")
    if kind == "transposed":
        return nn.ConvTranspose2d(before, after, *draft.one((2, 2), (4, 2, 1)))
    if kind == "shuffle":
        return draft.chain([nn.Conv2d(before, 4 * after, 1), nn.PixelShuffle(2)])
    how = {"align_corners": False} if kind == "bilinear" else {}
    scaled = nn.Upsample(scale_factor=2, mode=kind, **how)
    return draft.chain([scaled, *style.conv(before, after, 3)])
