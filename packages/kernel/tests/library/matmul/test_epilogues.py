"""Does a product with what follows it give the bits of its ops one by one, by every way?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, bool_, float16, float32, float64, int8, int32
from calor.ops.contraction import dot_general
from calor_cuda.kernels.matmul import split_k_launch
from calor_cuda.kernels.matmul import ways as tma_ways
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.ways import ranked
from calor_kernel.ir.text import kernel_text
from calor_kernel.library.matmul import (
    ProductFuser,
    cpu_ways,
    gpu_ways,
    lowering,
    product_chain,
    warp_mma,
)
from calor_kernel.library.matmul.product_chain import PRODUCT_CHAIN
from calor_kernel.runtime.backend import KernelBackend
from calor_nn import functional

from .test_units import ENGINE, GROUPED, INFO, ONE, SEVERAL

HALF = (bfloat16, float16)


def matrix(planes, *names):
    return replace(MANY_UNITS, planes=(planes,), matrices=frozenset(names), shared_bytes=64 << 10)


DOTS = replace(ONE_UNIT, features=ONE_UNIT.features | {"dot_bfloat16"}, dtypes=MANY_UNITS.dtypes)
FEW = replace(MANY_UNITS, features=MANY_UNITS.features - {"planes"})
SIMDGROUP = matrix(32, warp_mma.SQUARE)
CDNA = matrix(64, "mfma_32x32x2_float32", "mfma_32x32x8_bfloat16")
# The chains: a function of x, w and further operands, whose letters give their shapes.
CHAINS = {
    "bias": (lambda x, w, b: x @ w + b, "n"),
    "bias gelu": (lambda x, w, b: calor.gelu(x @ w + b), "n"),
    "scale, residual, two results": (
        lambda x, w, b, r, c: ((x @ w + b) * c + r, calor.relu(x @ w + b)),
        ("n", "mn", "m1"),
    ),
    "the product itself": (lambda x, w: (x @ w, calor.tanh(x @ w)), ""),
    "transposed": (lambda x, w, r: (x @ w) - r.T, ("nm",)),
    "sliced": (lambda x, w, r: (x @ w) * r[:, ::2] + r[:, 1::2], ("m2n",)),
    "cast": (lambda x, w, r: (x @ w).astype(float32) * 0.5 + r.astype(float32), ("mn",)),
    "mask": (lambda x, w, b: calor.where(b > 0, x @ w, 0.0) * 2.0, ("mn",)),
    "one number": (lambda x, w, s: (x @ w) / s, ("",)),
}
# A way's device, dtype and precision, sizes m, k, n, and the label of its last launch.
WAYS = {
    "packed": (ONE_UNIT, float32, "highest", (20, 33, 70), "matmul 5x32 with epilogue"),
    "packed, passes": (ONE_UNIT, float32, "highest", (5, 198, 38), "matmul 5x32 with epilogue"),
    "packed, double": (ONE_UNIT, float64, "highest", (7, 21, 19), "matmul 4x16 with epilogue"),
    "packed, halves": (DOTS, bfloat16, "highest", (9, 34, 37), "matmul 5x32 with epilogue"),
    "streams": (ONE_UNIT, float32, "highest", (1, 33, 70), "matmul streams with epilogue"),
    "tiles": (FEW, float16, "highest", (21, 19, 35), "matmul tiled 16x32 with epilogue"),
    "GEMV": (MANY_UNITS, float32, "highest", (3, 40, 37), "matmul gemv 4 rows with epilogue"),
    "GEMV, turned": (MANY_UNITS, bfloat16, "highest", (37, 40, 1), "gemv 1 rows with epilogue"),
    "predicated SIMT": (
        MANY_UNITS,
        float32,
        "highest",
        (21, 19, 35),
        "patches 16x64 with epilogue",
    ),
    "predicated MMA": (INFO, bfloat16, "highest", (21, 19, 35), "32x64 with epilogue"),
    "predicated, parts": (INFO, float16, "highest", (21, 990, 35), "matmul sums of 7"),
    "SIMT": (INFO, float32, "highest", (68, 20, 72), "matmul patches 64x64 with epilogue"),
    "fragments": (INFO, bfloat16, "highest", (72, 24, 72), "fragments 64x64 with epilogue"),
    "groups": (GROUPED, float16, "highest", (72, 24, 72), "groups 128x128 with epilogue"),
    "warp MMA": (SIMDGROUP, float16, "highest", (65, 19, 67), "warp MMA 64x64 with epilogue"),
    "matrix cores": (CDNA, float32, "highest", (65, 19, 67), "warp MMA 64x64 with epilogue"),
    "boxes": (ENGINE, bfloat16, "highest", (72, 24, 104), "boxes 64x128 with epilogue"),
    "register A": (ENGINE, float32, "high", (72, 24, 104), "boxes 64x128 tf32 with epilogue"),
}


def graph_of(function, dtype, shapes, precision="highest"):
    with calor.matmul_precision(precision), calor.device("numpy"):
        return calor.trace(function, *(calor.zeros(shape, dtype=dtype) for shape in shapes))


def run(graph, arrays, info, fusers):
    backend = KernelBackend("lanes", lambda index: LanesDevice(info), fusers=fusers)
    executable = backend.compile(0, graph)
    made = executable([backend.upload(0, np.ascontiguousarray(a)) for a in arrays])
    launches = [one.launch for found in executable.base.recording.launches for one in found]
    results = zip(made, graph.output_specs, strict=True)
    return [np.array(backend.download(0, b, s)) for b, s in results], launches


def operands(shapes, dtype):
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape).astype(dtype.numpy) for shape in shapes]


def same_bits(graph, arrays, info, label):
    """Check that fewer launches give the bits of the single nodes, and return the results."""
    fused, launches = run(graph, arrays, info, (ProductFuser(),))
    assert launches[-1].label.endswith(label)
    plain, more = run(graph, arrays, info, ())
    assert len(more) > len(launches)
    for a, b in zip(fused, plain, strict=True):
        assert a.tobytes() == b.tobytes()
    return fused


def shape_of(letters, sizes):
    count = {"m": sizes[0], "n": sizes[2], "1": 1}
    shape, factor = [], 1
    for letter in letters:
        if letter == "2":
            factor = 2
        else:
            shape.append(count[letter] * factor)
            factor = 1
    return tuple(shape)


def near(found, function, arrays, dtype, precision):
    """Compare results with those in float64."""
    with calor.device("numpy"):
        wanted = function(*(calor.asarray(a.astype(np.float64)) for a in arrays))
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    digits = {bfloat16: 2e-2, float16: 4e-3, float32: 2e-5, float64: 1e-12}[dtype]
    digits = 8e-3 if precision == "high" else digits
    for a, b in zip(found, wanted, strict=True):
        exact = b.numpy()
        error = np.abs(a.astype(np.float64) - exact)
        assert error.max() <= digits * max(np.abs(exact).max(), 1.0)


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("way", WAYS)
def test_same_bits(way, chain):
    info, dtype, precision, (m, k, n), label = WAYS[way]
    function, others = CHAINS[chain]
    shapes = [(m, k), (k, n), *(shape_of(letters, (m, k, n)) for letters in others)]
    arrays = operands(shapes, dtype)
    found = same_bits(graph_of(function, dtype, shapes, precision), arrays, info, label)
    if "number" not in chain and "mask" not in chain:
        near(found, function, arrays, dtype, precision)


@pytest.mark.parametrize(
    ("info", "dtype"),
    [(ONE_UNIT, float32), (MANY_UNITS, float16), (ENGINE, bfloat16)],
    ids=["one unit", "many units", "engine"],
)
def test_many_products(info, dtype):
    """An operand that differs between products, one that does not, and a matrix for each."""
    shapes = [(3, 72, 24), (3, 24, 72), (3, 1, 72), (72,), (3, 72, 72)]

    def chain(x, w, b, c, r):
        return (x @ w + b) * c + r

    found = same_bits(graph_of(chain, dtype, shapes), operands(shapes, dtype), info, "epilogue")
    near(found, chain, operands(shapes, dtype), dtype, "highest")


@pytest.mark.parametrize("rows", [1, 3])
def test_dots(rows):
    shapes = [(rows, 300), (21, 300), (21,), (rows, 21)]

    def chain(x, w, b, r):
        return calor.relu(functional.linear(x, w, b)) + r

    graph, arrays = graph_of(chain, float32, shapes), operands(shapes, float32)
    near(same_bits(graph, arrays, ONE_UNIT, "epilogue"), chain, arrays, float32, "highest")


TILED = replace(
    DOTS, features=DOTS.features | {"tile_bfloat16", "tile_8"}, vector_bytes=64
)  # fmt: skip


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("sizes", [(40, 64, 37), (33, 70, 64)], ids=str)
def test_tile_registers(sizes, chain):
    """Short expressions are written with the blocks of sums, and long ones as a launch."""
    function, letters = CHAINS[chain]
    m, k, n = sizes
    shapes = [(m, k), (k, n), *(shape_of(one, sizes) for one in letters)]
    graph = graph_of(function, bfloat16, shapes)
    arrays = operands(shapes, bfloat16)
    found, launches = run(graph, arrays, TILED, (ProductFuser(),))
    plain, _ = run(graph, arrays, TILED, ())
    labels = [launch.label for launch in launches if "tile registers" in launch.label]
    long = chain in ("bias gelu", "the product itself")
    assert labels == ["matmul tile registers 32x32" + " with epilogue" * (not long)]
    for a, b in zip(found, plain, strict=True):
        np.testing.assert_array_equal(a, b)


def test_dots_before_a_long_expression():
    shapes = [(3, 300), (21, 300)]
    graph = graph_of(lambda x, w: calor.gelu(functional.linear(x, w)) * 2.0, float32, shapes)
    same_bits(graph, operands(shapes, float32), ONE_UNIT, "elementwise.flat")


def test_passes_over_a_long_axis():
    """Sums of the passes before the last lie in memory of their own."""
    shapes = [(11, 1100), (1100, 37), (37,), (11, 37)]

    def chain(x, w, b, r):
        return ((x @ w + b) * r).astype(bfloat16)

    graph, arrays = graph_of(chain, float32, shapes), operands(shapes, float32)
    near(same_bits(graph, arrays, ONE_UNIT, "epilogue"), chain, arrays, bfloat16, "highest")


@pytest.mark.parametrize(
    ("shape", "prefetched"), [((20, 70), True), ((70,), False), ((20, 1), False)], ids=str
)
def test_matrices_are_prefetched(shape, prefetched):
    """A tile reads a matrix beside its sums in few elements of many rows."""
    shapes = [(20, 33), (33, 70), shape]
    graph = graph_of(lambda x, w, r: x @ w + r, float32, shapes)
    _, launches = run(graph, operands(shapes, float32), ONE_UNIT, (ProductFuser(),))
    assert ("prefetch" in kernel_text(launches[-1].build.kernel())) is prefetched


def test_integers():
    def dequantized(x, w):
        return dot_general(x, w, contract=ONE, batch=((), ()), dtype=int32).astype(float32) * 0.125

    graph = graph_of(dequantized, int8, [(5, 9), (9, 7)])
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-100, 100, s).astype(np.int8) for s in ((5, 9), (9, 7))]
    for info in (ONE_UNIT, MANY_UNITS):
        (found,) = same_bits(graph, arrays, info, "epilogue")
        wanted = (arrays[0].astype(np.int64) @ arrays[1].astype(np.int64)) * 0.125
        np.testing.assert_array_equal(found, wanted.astype(np.float32))


def test_a_comparison_is_written():
    shapes = [(20, 33), (33, 70)]
    for info in (ONE_UNIT, MANY_UNITS):
        graph = graph_of(lambda x, w: (x @ w) > 0.5, float32, shapes)
        (found,) = same_bits(graph, operands(shapes, float32), info, "epilogue")
        assert found.dtype == bool_.numpy


def test_no_terms():
    """An empty sum is 0 and what follows it is computed."""
    shapes = [(4, 0), (0, 6), (6,)]
    for info in (ONE_UNIT, MANY_UNITS):
        graph = graph_of(lambda x, w, b: calor.exp(x @ w + b), float32, shapes)
        arrays = operands(shapes, float32)
        (found,), _ = run(graph, arrays, info, (ProductFuser(),))
        np.testing.assert_allclose(found, np.broadcast_to(np.exp(arrays[2]), (4, 6)), rtol=1e-6)


# Products by TMA: the tile and split, a chain with few or many instructions, and a type.
@pytest.mark.parametrize("chain", ["bias gelu", "scale, residual, two results"])
@pytest.mark.parametrize(
    "plan", [(64, 64, 2, 2), (128, 192, 2, 2), (192, 128, 2, 2), (64, 128, 3, 2, True)], ids=str
)
@pytest.mark.parametrize(
    ("dtype", "precision", "turned"),
    [(bfloat16, "highest", False), (float32, "high", False), (float32, "high", True)],
    ids=str,
)
def test_boxes(monkeypatch, plan, dtype, precision, turned, chain):
    """Tiles one after another in a cube, with an odd number of parts too."""
    monkeypatch.setattr(tma_ways, "_BOXES", {plan: 1.0})
    m, k, n = 200, 24, 264
    function, others = CHAINS[chain]
    shapes = [(m, k), (n, k) if turned else (k, n)]
    shapes += [shape_of(letters, (m, k, n)) for letters in others]

    def chained(x, w, *rest):
        return function(x, w.T if turned else w, *rest)

    info = replace(SEVERAL, cores=2)
    graph, arrays = graph_of(chained, dtype, shapes, precision), operands(shapes, dtype)
    # Three warp groups have no registers for more than one matrix of four bytes.
    crowded = plan[0] == 192 and dtype is float32 and "residual" in chain
    label = "elementwise.vectors" if crowded else "epilogue"
    near(same_bits(graph, arrays, info, label), chained, arrays, dtype, precision)


@pytest.mark.parametrize("chain", ["bias gelu", "scale, residual, two results"])
@pytest.mark.parametrize(
    ("dtype", "precision"), [(bfloat16, "highest"), (float32, "high")], ids=str
)
def test_boxes_of_odd_columns(monkeypatch, dtype, precision, chain):
    """Rows of the result begin anywhere, so units write single elements."""
    monkeypatch.setattr(tma_ways, "_BOXES", {(64, 64, 2, 2): 1.0})

    def boxed(ways, task, request):
        return ranked([way for way in ways if way.name == "warp-group TMA"], task, request)

    monkeypatch.setattr(lowering, "ranked", boxed)
    monkeypatch.setattr(product_chain, "ranked", boxed)
    m, k, n = 130, 40, 101
    function, others = CHAINS[chain]
    shapes = [(m, k), (n, k), *(shape_of(letters, (m, k, n)) for letters in others)]

    def chained(x, w, *rest):
        return function(x, w.T, *rest)

    graph, arrays = graph_of(chained, dtype, shapes, precision), operands(shapes, dtype)
    found = same_bits(graph, arrays, replace(SEVERAL, cores=2), "epilogue")
    near(found, chained, arrays, dtype, precision)


@pytest.mark.parametrize("one", [True, False], ids=["one launch", "two passes"])
@pytest.mark.parametrize("chain", ["bias gelu", "scale, residual, two results"])
def test_split_k(monkeypatch, chain, one):
    if one:
        monkeypatch.setattr(split_k_launch, "_LEAST", 1)
    info = replace(SEVERAL, cores=6 if one else 16)
    if not one:
        info = replace(info, features=info.features - {"forward_progress"})
    m, k, n = 72, 2048, 72
    function, others = CHAINS[chain]
    shapes = [(m, k), (k, n), *(shape_of(letters, (m, k, n)) for letters in others)]
    graph, arrays = graph_of(function, bfloat16, shapes), operands(shapes, bfloat16)
    fused, launches = run(graph, arrays, info, (ProductFuser(),))
    assert len(launches) == (1 if one else 2)
    assert any("shares" in la.label for la in launches) == one
    near(fused, function, arrays, bfloat16, "highest")


@pytest.mark.parametrize("sizes", [(2, 400, 9), (9, 400, 2)], ids=["rows", "columns"])
def test_gemv_in_parts(monkeypatch, sizes):
    """What adds the parts does what follows, also if the result is that of the transposes."""
    monkeypatch.setattr(gpu_ways, "gemv_parts", lambda *given: 3)
    function, others = CHAINS["scale, residual, two results"]
    shapes = [sizes[:2], sizes[1:], *(shape_of(letters, sizes) for letters in others)]
    graph, arrays = graph_of(function, float32, shapes), operands(shapes, float32)
    found = same_bits(graph, arrays, MANY_UNITS, "matmul sums of 3")
    near(found, function, arrays, float32, "highest")


def test_a_way_without_epilogues_is_followed_by_the_chain(monkeypatch):
    """What a way does not know is done after it, and is not lost."""
    plain = cpu_ways.WAYS[-1]

    def unaware(task, request):
        return plain.works(replace(task, tail=None), request)

    monkeypatch.setattr(cpu_ways, "WAYS", (replace(plain, works=unaware),))
    shapes = [(20, 33), (33, 70), (70,)]
    function, _ = CHAINS["bias gelu"]
    graph, arrays = graph_of(function, float32, shapes), operands(shapes, float32)
    found, launches = run(graph, arrays, ONE_UNIT, (ProductFuser(),))
    assert [la.label.split()[0] for la in launches] == ["matmul", "elementwise.rows"]
    near(found, function, arrays, float32, "highest")


def test_the_op_has_candidates_of_both_kinds():
    from calor_kernel.planning.lowering import Lowerings

    graph = graph_of(CHAINS["bias"][0], float32, [(20, 33), (33, 70), (70,)])
    (group,) = ProductFuser().groups(graph, ONE_UNIT)
    assert group.op == PRODUCT_CHAIN
    views = tuple(map(_dense, (graph.specs[v] for v in group.inputs)))
    outputs = tuple(graph.specs[v] for v in group.outputs)
    asked = Lowerings(ONE_UNIT, lambda op: True).ask(group.op, group.attributes, views, outputs)
    assert len({work.variant for work in asked}) == len(asked) > 3


def _dense(spec):
    from calor_kernel.contract.work import View

    return View.dense(spec)
