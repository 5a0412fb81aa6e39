"""Images sampled anew: all ways of resizing, grids, warps, odd pools, borders, patches."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Work
from fuzzing.families._common import (
    alike,
    alike_nn,
    calor_nn,
    is_torch,
    library,
    one,
    sizes,
    torch_nn,
)

_BATCHES = {1: 3, 2: 1, 4: 1, 8: 2, 16: 1}
# Channels and sizes, from and to: feature pyramids, heads of segmentation, super-resolution,
# position embeddings, style, augmentation.
_RESIZES = [(256, (20, 20), (40, 40)), (21, (65, 65), (513, 513)), (19, (64, 128), (512, 1024)),
            (256, (33, 33), (129, 129)), (3, (256, 256), (64, 64)), (768, (14, 14), (24, 24)),
            (64, (55, 128), (110, 256)), (512, (1, 1), (33, 33)), (512, (6, 6), (60, 60)),
            (3, (480, 640), (224, 224)), (128, (32, 32), (64, 64)), (1280, (8, 8), (16, 16)),
            (64, (112, 112), (56, 56)), (16, (50, 50), (77, 77))]  # fmt: skip
_RESIZE_MODES = {"bilinear": 4, "bicubic": 2, "nearest": 2, "corners": 2, "trilinear": 1,
                 "linear": 1,
                 "area": 1}  # fmt: skip
_FORMS = {"resize": 4, "grid": 3, "grid_nearest": 1, "grid_border": 1, "warp": 1, "adaptive": 4,
          "adaptive_max": 1, "spatial_pyramid": 2, "average_same": 1, "pool_1d": 1, "pool_3d": 1,
          "border": 3, "response": 1, "unfold": 2, "shuffle": 1, "blur": 1, "strips": 1,
          "squeeze": 3, "statistics": 1, "noise": 1}  # fmt: skip
_FEATURES = {(64, 56): 2, (128, 28): 1, (256, 14): 2, (512, 7): 2, (2048, 7): 1, (512, 60): 1,
             (256, 33): 1, (96, 56): 1, (32, 112): 1, (512, 13): 1, (3, 224): 1,
             (320, 64): 1}  # fmt: skip


def _draw(random: Random) -> Parameters:
    form = one(random, _FORMS)
    batch = one(random, _BATCHES)
    if form == "resize":
        channels, given, made = random.choice(_RESIZES)
        mode = one(random, _RESIZE_MODES)
        return {"form": form, "batch": batch, "image": (channels, *given), "to": made, "mode": mode}
    channels, side = one(random, _FEATURES)
    to = one(random, {1: 1, 2: 1, 3: 2, 5: 1, 6: 2, 7: 2})
    reach = one(random, {1: 4, 2: 1, 3: 2, 5: 1, 9: 1, 13: 1})
    mode = one(random, {"reflect": 3, "edge": 1, "wrap": 1})
    return {"form": form, "batch": batch, "image": (channels, side, side),
            "to": (min(to, side),) * 2,
            "reach": min(reach, side - 1), "mode": mode}  # fmt: skip


def _images(p: Parameters) -> Work:
    """Return what is sampled of an image.

    corners: bilinear with corners aligned; warp: an affine map with its sampling; adaptive: pools
    to odd sizes; spatial_pyramid: windows of 5, 9 or 13 with stride 1; border: padding that
    reflects, repeats or wraps; blur: a fixed filter behind padding; squeeze: gates of channels;
    statistics: of style.
    """
    form, batch, image = sizes(p, "form", "batch", "image")
    work: Work = _FORM[form](p, (batch, *image))
    return work


def _resize(p: Parameters, shape: Any) -> Work:
    mode = str(p["mode"])
    to: Any = p["to"]
    corners = mode == "corners"
    if mode == "linear":
        shape, to = (shape[0], shape[1], shape[2] * 4), (to[0] * 4,)
    if mode == "trilinear":
        shape, to = (shape[0], max(1, shape[1] // 8), 8, *shape[2:]), (16, *to)
    named = "bilinear" if corners else mode

    def call(nn: Any, x: Any) -> Any:
        more = {"align_corners": corners} if mode not in ("nearest", "area") else {}
        return nn.interpolate(x, size=to, mode=named, **more)

    made = (*shape[:2], *to)
    return Work((Operand(shape),), *alike_nn(call), made, 8.0 * prod(made), 32)


def _grid(p: Parameters, shape: Any) -> Work:
    n, _, height, width = shape
    form = str(p["form"])
    mode = "nearest" if form == "grid_nearest" else "bilinear"
    padding = "border" if form == "grid_border" else "zeros"

    def call(nn: Any, x: Any, grid: Any) -> Any:
        return nn.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=False)

    def warp(nn: Any, x: Any, theta: Any) -> Any:
        grid = nn.affine_grid(theta, list(shape), align_corners=False)
        return nn.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)

    if form == "warp":
        given = (Operand(shape, "float32"), Operand((n, 2, 3), "float32", fixed=True))
        return Work(given, *alike_nn(warp), shape, 12.0 * prod(shape), 64)
    # Places are single-precision numbers: those of half types would fall on other pixels.
    grid = Operand((n, height, width, 2), "float32", fixed=True)
    given = (Operand(shape, "float32"), grid)
    return Work(given, *alike_nn(call), shape, 12.0 * prod(shape), 64)


def _adaptive(p: Parameters, shape: Any) -> Work:
    name = "adaptive_max_pool2d" if p["form"] == "adaptive_max" else "adaptive_avg_pool2d"
    to: Any = p["to"]
    made = (*shape[:2], *to)
    depth = max(1, prod(shape[2:]) // prod(to))
    return Work((Operand(shape),), *alike_nn(lambda nn, x: getattr(nn, name)(x, to)), made,
                float(prod(shape)), depth)  # fmt: skip


def _pooled(p: Parameters, shape: Any) -> Work:
    form = p["form"]
    size = {3: 5, 5: 9}.get(int(p["reach"]), 13 if shape[2] > 13 else 3)  # type: ignore[arg-type]
    if form == "pool_1d":
        shape = (*shape[:2], shape[2] * shape[3])
        made = (*shape[:2], shape[2] // 2)
        return Work((Operand(shape),), *alike_nn(lambda nn, x: nn.max_pool1d(x, 2, 2)), made)
    if form == "pool_3d":
        shape = (shape[0], max(1, shape[1] // 8), 8, *shape[2:])
        made = (*shape[:2], 4, shape[3] // 2, shape[4] // 2)
        return Work((Operand(shape),), *alike_nn(lambda nn, x: nn.max_pool3d(x, 2, 2)), made)
    if form == "average_same":
        call: Any = lambda nn, x: nn.avg_pool2d(x, 3, 1, 1) - x  # noqa: E731
        return Work((Operand(shape),), *alike_nn(call), shape, 9.0 * prod(shape), 9)
    call = lambda nn, x: nn.max_pool2d(x, size, 1, size // 2)  # noqa: E731
    return Work((Operand(shape),), *alike_nn(call), shape, float(size**2 * prod(shape)), size**2)


def _border(p: Parameters, shape: Any) -> Work:
    reach, mode = int(p["reach"]), str(p["mode"])  # type: ignore[arg-type]
    theirs = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}[mode]
    reach = min(reach, shape[-1] - 1)
    made = (*shape[:2], shape[2] + 2 * reach, shape[3] + 2 * reach)
    widths = [(0, 0), (0, 0), (reach, reach), (reach, reach)]
    return Work(
        (Operand(shape),),
        lambda x: library("calor").pad(x, widths, mode=mode),
        lambda x: torch_nn().pad(x, (reach,) * 4, mode=theirs),
        made, depth=4,
    )  # fmt: skip


def _blur(p: Parameters, shape: Any) -> Work:
    channels = shape[1]
    made = (*shape[:2], (shape[2] - 1) // 2 + 1, (shape[3] - 1) // 2 + 1)

    def ours(x: Any, w: Any) -> Any:
        x = library("calor").pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], mode="reflect")
        return calor_nn().conv2d(x, w, stride=2, groups=channels)

    def theirs(x: Any, w: Any) -> Any:
        return torch_nn().conv2d(
            torch_nn().pad(x, (1,) * 4, mode="reflect"), w, stride=2, groups=channels
        )

    given = (Operand(shape), Operand((channels, 1, 3, 3), weight=True, fixed=True))
    return Work(given, ours, theirs, made, 18.0 * prod(made), 9)


def _response(p: Parameters, shape: Any) -> Work:
    call: Any = lambda nn, x: nn.local_response_norm(x, 5)  # noqa: E731
    return Work((Operand(shape),), *alike_nn(call), shape, 10.0 * prod(shape), 5)


def _unfold(p: Parameters, shape: Any) -> Work:
    n, channels, height, width = shape

    def call(nn: Any, x: Any) -> Any:
        return nn.unfold(x, 3, padding=1) if is_torch(nn) else nn.im2col(x, 3, padding=1)

    return Work((Operand(shape),), *alike_nn(call), (n, channels * 9, height * width), depth=9)


def _shuffle(p: Parameters, shape: Any) -> Work:
    n, channels, *rest = shape
    groups = 4 if channels % 4 == 0 else 1

    def call(lib: Any, x: Any) -> Any:
        return x.reshape(n, groups, channels // groups, *rest).swapaxes(1, 2).reshape(shape) * 1.5

    return Work((Operand(shape),), *alike(call), shape)


def _strips(p: Parameters, shape: Any) -> Work:
    """Return coordinate attention's gates: means of rows times means of columns."""

    def call(lib: Any, x: Any) -> Any:
        rows, columns = x.mean(axis=3, keepdims=True), x.mean(axis=2, keepdims=True)
        return x / (1 + lib.exp(-rows)) / (1 + lib.exp(-columns))

    return Work((Operand(shape),), *alike(call), shape, 8.0 * prod(shape), prod(shape[2:]))


def _squeeze(p: Parameters, shape: Any) -> Work:
    channels = shape[1]
    inner = max(1, channels // 16)

    def call(lib: Any, x: Any, a: Any, b: Any) -> Any:
        y = x.mean(axis=(2, 3)) @ (a * channels**-0.5)
        y = lib.maximum(y, 0 * y) @ (b * inner**-0.5)
        return x * (1 / (1 + lib.exp(-y)))[:, :, None, None]

    given = (
        Operand(shape),
        Operand((channels, inner), weight=True),
        Operand((inner, channels), weight=True),
    )
    return Work(given, *alike(call), shape, 4.0 * prod(shape), prod(shape[2:]))


def _statistics(p: Parameters, shape: Any) -> Work:
    """Return a Gram matrix of the channels of an image."""
    n, channels, *rest = shape
    size = prod(rest)

    def call(lib: Any, x: Any) -> Any:
        flat = x.reshape(n, channels, size)
        return flat @ flat.mT / size

    return Work(
        (Operand(shape),), *alike(call), (n, channels, channels), 2.0 * prod(shape) * channels, size
    )


def _noise(p: Parameters, shape: Any) -> Work:
    """Return a noised image: factors of a schedule picked for each sample."""
    steps = Operand((1000,), "float32", positive=True, fixed=True)

    def call(lib: Any, x: Any, noise: Any, table: Any, index: Any) -> Any:
        picked = table[index] if is_torch(lib) else lib.take(table, index, axis=0)
        keep = picked[:, None, None, None]
        made = lib.sqrt(keep) * x + lib.sqrt(1 + keep) * noise
        return made.to(x.dtype) if is_torch(lib) else made.astype(x.dtype)

    given = (Operand(shape), Operand(shape, fixed=True), steps, Operand((shape[0],), "index", 1000))
    return Work(given, *alike(call), shape, 3.0 * prod(shape))


_FORM: dict[str, Any] = {
    "resize": _resize, **dict.fromkeys(("grid", "grid_nearest", "grid_border", "warp"), _grid),
    **dict.fromkeys(("adaptive", "adaptive_max"), _adaptive),
    **dict.fromkeys(("spatial_pyramid", "average_same", "pool_1d", "pool_3d"), _pooled),
    "border": _border, "response": _response, "unfold": _unfold, "shuffle": _shuffle,
    "blur": _blur, "strips": _strips, "squeeze": _squeeze, "statistics": _statistics,
    "noise": _noise,
}  # fmt: skip
FAMILIES = (Family("image", 4, _draw, _images, ("batch",)),)
