"""A map of convolutions on a described device: which way each takes, and how far from the ceiling.

    python testing/convolution_map.py --device cuda --worst 40
    python testing/convolution_map.py --only depthwise --dtype bf16 --batch 32 --json FILE

Shapes are those of published networks. Nothing runs: a family is asked for its work, and the time
of each launch is estimated from its operations, bytes and cubes, with the share of the ceiling that
kernels of its kind reached on an H200. The estimate is coarse; it is there to find problems that
fall to a way ten times slower than need be, and the copies that a way makes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

from calor.dtypes import as_dtype  # noqa: E402
from calor.specs import Spec  # noqa: E402
from calor_kernel.contract.work import Launch, Refusal, Request, View, Work  # noqa: E402
from calor_kernel.planning.lowering import Lowerings, load_families  # noqa: E402
from census_devices import DEVICES  # noqa: E402

OPS: Final = ("conv", "conv_input_gradient", "conv_weight_gradient")
DTYPES: Final = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "tf32": "float32"}
BATCHES: Final = (1, 8, 32)
# Of an H200: operations a second of matrix instructions by dtype and of FMA, bytes a second of
# memory, and seconds of a launch in a CUDA graph.
MATRIX: Final = {"bf16": 740e12, "f16": 740e12, "tf32": 370e12}
FMA, MEMORY, LAUNCH = 50e12, 4.2e12, 1.5e-6
# The share of the ceiling by the beginning of a launch's label: of matrix instructions or FMA.
RATES: Final = (
    ("conv tma", "matrix", 0.55),
    ("conv weight tma", "matrix", 0.75),
    ("conv weight mma", "matrix", 0.25),
    ("conv mma", "matrix", 0.25),
    ("matmul boxes", "matrix", 0.6),
    ("matmul fragments", "matrix", 0.5),
    ("matmul predicated", "matrix", 0.15),
    ("matmul mma", "matrix", 0.3),
    ("conv simt", "fma", 0.6),
    ("matmul simt", "fma", 0.7),
    ("conv tiled", "fma", 0.08),
    ("conv blocks", "fma", 0.3),
    ("conv direct", "fma", 0.01),
    ("matmul tiled", "fma", 0.15),
)
FLAGGED: Final = ("conv tiled", "conv direct", "matmul tiled")


@dataclass(frozen=True, slots=True)
class Shape:
    """A convolution of a network: sizes along the spatial axes, and its groups."""

    name: str
    channels: int
    filters: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    transposed: bool = False

    @property
    def out(self) -> tuple[int, ...]:
        """The output pixels along each axis."""
        reach = [self.dilation * (k - 1) + 1 for k in self.kernel]
        pairs = zip(self.size, reach, strict=True)
        return tuple((n + 2 * self.padding - r) // self.stride + 1 for n, r in pairs)

    def request(self, op: str, batch: int, dtype: str, info: Any) -> Request:
        """Return the request of the forward pass or of a gradient."""
        kind = as_dtype(DTYPES[dtype])
        x = Spec((batch, self.channels, *self.size), kind, False)
        w = Spec((self.filters, self.channels // self.groups, *self.kernel), kind, False)
        y = Spec((batch, self.filters, *self.out), kind, False)
        given = {"conv": ((x, w), y), OPS[1]: ((y, w), x), OPS[2]: ((x, y), w)}
        operands, result = given[op]
        axes = len(self.size)
        attributes = {
            "stride": (self.stride,) * axes,
            "padding": ((self.padding, self.padding),) * axes,
            "dilation": (self.dilation,) * axes,
            "groups": self.groups,
            "precision": "high" if dtype == "tf32" else "highest",
        }
        views = tuple(View.dense(spec) for spec in operands)
        return Request(op, attributes, views, (result,), info)


def shapes() -> Iterator[Shape]:
    """Yield the convolutions of known networks."""
    yield Shape("resnet stem 7x7 s2", 3, 64, (224, 224), (7, 7), 2, 3)
    before, size = 64, 56
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        out, at = size // stride, f"resnet {width}"
        yield Shape(f"{at} 1x1 in", before, width, (size, size), (1, 1))
        yield Shape(f"{at} 3x3 s{stride}", width, width, (size, size), (3, 3), stride, 1)
        yield Shape(f"{at} 1x1 out", width, 4 * width, (out, out), (1, 1))
        yield Shape(f"{at} 1x1 s{stride} shortcut", before, 4 * width, (size, size), (1, 1), stride)
        yield Shape(f"resnext {width}", 2 * width, 2 * width, (out, out), (3, 3), 1, 1, 1, 32)
        before, size = 4 * width, out
    yield Shape("mobile stem 3x3 s2", 3, 32, (224, 224), (3, 3), 2, 1)
    for channels, n, k, s in (
        *((32, 112, 3, 1), (96, 112, 3, 2), (144, 56, 3, 1), (192, 28, 3, 2), (384, 14, 3, 1)),
        *((576, 14, 3, 2), (960, 7, 3, 1), (72, 56, 5, 2), (120, 28, 5, 1), (672, 14, 5, 2)),
        *((960, 7, 5, 1), (96, 56, 7, 1), (192, 28, 7, 1), (384, 14, 7, 1), (768, 7, 7, 1)),
    ):
        named = f"depthwise {k}x{k} s{s} of {channels} at {n}"
        yield Shape(named, channels, channels, (n, n), (k, k), s, k // 2, 1, channels)
    for channels, filters, n in ((16, 96, 112), (24, 144, 56), (144, 24, 56), (320, 1280, 7)):
        yield Shape(f"expand {channels} to {filters} at {n}", channels, filters, (n, n), (1, 1))
    for channels, filters in ((96, 24), (24, 96), (1152, 48), (48, 1152), (672, 168)):
        yield Shape(f"squeeze {channels} to {filters}", channels, filters, (1, 1), (1, 1))
    yield Shape("convnext stem 4x4 s4", 3, 96, (224, 224), (4, 4), 4)
    yield Shape("convnext down 2x2 s2", 96, 192, (56, 56), (2, 2), 2)
    yield Shape("vit patches 16x16", 3, 768, (224, 224), (16, 16), 16)
    yield Shape("clip patches 14x14", 3, 1024, (224, 224), (14, 14), 14)
    for channels, filters, n in ((3, 64, 256), (64, 64, 256), (128, 128, 128), (1024, 512, 32)):
        yield Shape(f"unet {channels} to {filters} at {n}", channels, filters, (n, n), (3, 3), 1, 1)
    yield Shape("unet 64 to 1 at 256", 64, 1, (256, 256), (1, 1))
    yield Shape("diffusion 320 to 4 at 64", 320, 4, (64, 64), (3, 3), 1, 1)
    yield Shape("diffusion 4 to 320 at 64", 4, 320, (64, 64), (3, 3), 1, 1)
    for channels, filters, n in ((256, 512, 8), (128, 256, 16), (64, 128, 32), (3, 64, 64)):
        # A generator's transposed convolution is the input gradient of this one.
        named = f"dcgan 4x4 s2 {filters} to {channels}"
        yield Shape(named, channels, filters, (n, n), (4, 4), 2, 1)
    yield Shape("speech first k10 s5", 1, 512, (16000,), (10,), 5)
    yield Shape("speech k3 s2", 512, 512, (3199,), (3,), 2)
    yield Shape("speech k8 s4", 512, 512, (3199,), (8,), 4)
    yield Shape("speech position k128 g16", 768, 768, (199,), (128,), 1, 64, 1, 16)
    yield Shape("whisper k3", 80, 384, (3000,), (3,), 1, 1)
    yield Shape("conformer depthwise k31", 256, 256, (400,), (31,), 1, 15, 1, 256)
    for dilation in (1, 8, 64):
        named = f"tcn k3 dilated {dilation}"
        yield Shape(named, 64, 64, (1024,), (3,), 1, dilation, dilation)
    yield Shape("odd 37 to 53 at 19", 37, 53, (19, 23), (3, 3), 1, 1)
    yield Shape("digits 1 to 32", 1, 32, (28, 28), (3, 3))
    yield Shape("video 3 to 64", 3, 64, (16, 112, 112), (3, 3, 3), 1, 1)
    yield Shape("video 64 to 64", 64, 64, (8, 56, 56), (3, 3, 3), 1, 1)


@dataclass(slots=True)
class Line:
    """A problem on the map: the way and its launches, the time expected and the ceiling's."""

    case: str
    op: str
    way: str
    launches: list[dict[str, Any]]
    seconds: float
    floor: float
    flags: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The expected time over that of the ceiling."""
        return self.seconds / self.floor


def line_of(shape: Shape, op: str, batch: int, dtype: str, info: Any) -> Line:
    """Return a problem's line."""
    request = shape.request(op, batch, dtype, info)
    answer = Lowerings.answer(request)
    name = f"{shape.name}, {dtype}, batch {batch}"
    if isinstance(answer, Refusal):
        return Line(name, op, f"refused: {answer.reason}", [], 1.0, 1e-6, ["refused"])
    work: Work = answer[0]
    item = request.inputs[0].dtype.itemsize
    flops = 2 * batch * shape.filters * (shape.channels // shape.groups)
    flops *= prod(shape.out) * prod(shape.kernel)
    sizes = [view.size for view in request.inputs] + [spec.size for spec in request.outputs]
    nbytes = sum(sizes) * item
    by_matrix = dtype in MATRIX and shape.groups != shape.channels
    peak = MATRIX[dtype] if by_matrix else FMA
    floor = max(flops / peak, nbytes / MEMORY) + LAUNCH
    found, total = [], 0.0
    main = max(work.launches, key=lambda launch: int(launch.flops), default=None)
    for launch in work.launches:
        least = nbytes if launch is main else 0
        seconds = _seconds(launch, dtype, least, info.cores)
        total += seconds
        cubes = [int(n) for n in launch.cubes]
        found.append(
            {
                "label": launch.label,
                "cubes": cubes,
                "flops": int(launch.flops),
                "nbytes": int(launch.nbytes),
                "microseconds": round(seconds * 1e6, 2),
            }
        )
    line = Line(name, op, getattr(work.way, "name", work.variant), found, total, floor)
    line.flags = list(_flags(line, nbytes, by_matrix, info.cores))
    return line


def _seconds(launch: Launch, dtype: str, least: int, cores: int) -> float:
    """Return the time that a launch is expected to take."""
    unit, rate = next(
        ((unit, rate) for start, unit, rate in RATES if launch.label.startswith(start)),
        ("fma", 0.5),
    )
    peak = MATRIX.get(dtype, FMA) if unit == "matrix" else FMA
    cubes = prod(int(n) for n in launch.cubes)
    busy = min(1.0, cubes / cores)
    computing = int(launch.flops) / (peak * rate * busy)
    # A core moves no more than four times its share of memory's bandwidth.
    moving = max(int(launch.nbytes), least) / (0.8 * MEMORY * min(1.0, 4 * busy))
    return float(max(computing, moving) + LAUNCH)


def _flags(line: Line, nbytes: int, by_matrix: bool, cores: int) -> Iterator[str]:
    for launch in line.launches:
        if by_matrix and launch["label"].startswith((*FLAGGED, "conv simt")):
            yield "no matrix instructions"
        elif launch["label"].startswith(FLAGGED):
            yield "generic"
        if launch["flops"] and prod(launch["cubes"]) < cores // 2 and launch["microseconds"] > 5:
            yield f"{prod(launch['cubes'])} cubes"
        copied = launch["nbytes"] / max(nbytes, 1)
        if not launch["flops"] and copied > 2 and launch["microseconds"] > 3:
            yield f"a copy of {copied:.0f} times the operands"


def main() -> None:
    """Print the problems that are farthest from the ceiling."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda", choices=sorted(DEVICES))
    parser.add_argument("--only", default="", help="a text in the names of the shapes")
    parser.add_argument("--op", default="", help="one of the three ops")
    parser.add_argument("--dtype", default=",".join(DTYPES))
    parser.add_argument("--batch", default=",".join(map(str, BATCHES)))
    parser.add_argument("--worst", type=int, default=60, help="the number of lines")
    parser.add_argument("--launches", action="store_true", help="print the launches of each line")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    load_families()
    info = DEVICES[given.device]().info
    lines = [
        line_of(shape, op, batch, dtype, info)
        for shape in shapes()
        for dtype in given.dtype.split(",")
        for batch in map(int, given.batch.split(","))
        for op in OPS
        if given.only in shape.name and given.op in op
    ]
    lines.sort(key=lambda line: line.floor - line.seconds)
    for line in lines[: given.worst]:
        times = f"{line.seconds * 1e6:9.1f} / {line.floor * 1e6:7.1f} µs {line.ratio:7.1f}x"
        print(f"{times}  {line.op:21} {line.case:44} {line.way}; {', '.join(line.flags)}")
        for launch in line.launches if given.launches else ():
            print(f"{'':14}{launch}")
    print(f"{len(lines)} problems, {sum(line.ratio > 3 for line in lines)} beyond three ceilings")
    if given.json:
        made = [{**vars_of(line), "ratio": round(line.ratio, 2)} for line in lines]
        given.json.write_text(json.dumps(made, indent=1) + "\n", "utf-8")


def vars_of(line: Line) -> dict[str, Any]:
    """Return a line as plain data."""
    return {name: getattr(line, name) for name in line.__dataclass_fields__}


if __name__ == "__main__":
    main()
