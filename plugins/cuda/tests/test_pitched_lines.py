"""Matrices of odd columns get lines with a pitch, the same bits, and shared memory."""

from typing import Any

import numpy as np
import pytest

import calor
import calor.nn
from calor.dtypes import bfloat16, float32
from calor.graph.graph import Graph
from calor.graph.interpreter import interpret
from calor.specs import spec
from calor_cuda.cuda_cpp import CudaCpp
from calor_cuda.description import describe
from calor_cuda.kernels.matmul import ways as tma_ways
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Build, Launch, Refusal, Request, View, Work
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.matmul import lower_dot_general
from calor_kernel.library.matmul.operand_padding import copy_lines
from calor_kernel.library.reduce import RowFuser, cooperative_rows, launches
from calor_kernel.planning import line_pitches
from calor_kernel.planning.lowering import Lowerings, load_families
from calor_kernel.planning.planner import Planner
from calor_kernel.planning.replanning import plan_anew
from calor_kernel.planning.values import Piece, Task, Value
from calor_kernel.printers import print_kernel
from calor_kernel.runtime.backend import KernelBackend
from imitated_cuda import H200

ROWS, WIDTH, WORDS = 70, 64, 203
OPTIONS = ("--gpu-architecture=sm_90a", "--fmad=false", "--std=c++17", "--ptxas-options=-v")


def _loss(x: Any, w: Any, words: Any) -> Any:
    scores = calor.log_softmax(x @ w.T, axis=-1)
    chosen = calor.where(
        calor.arange(w.shape[0], dtype=calor.int32) == words.reshape(-1, 1), scores, 0.0
    )
    return -calor.sum(chosen.astype(float32))


def _info() -> DeviceInfo:
    native = {"library": "CuPy", "driver": 13000, "runtime": 13000, "target": "sm_90a"}
    return describe({**H200, "totalGlobalMem": 141 << 30}, native)


def _graph(rows: int = ROWS, count: int = WORDS, width: int = WIDTH) -> Graph:
    with calor.device("numpy"):
        x, w = (calor.zeros((n, width), dtype=bfloat16) for n in (rows, count))
        words = calor.zeros(rows, dtype=calor.int32)
        return calor.trace(calor.grad(_loss, argnums=(0, 1)), x, w, words)


def _run(graph: Graph, arrays: list[Any] | None = None) -> tuple[list[Any], Any]:
    from calor_cuda.device import CudaDevice

    fusers, rng = (RowFuser(), ElementwiseFuser()), np.random.default_rng(0)
    backend = KernelBackend("imitated", lambda i: CudaDevice(0), fusers=fusers)
    if arrays is None:
        arrays = [rng.normal(size=(n, WIDTH)).astype(bfloat16.numpy) for n in (ROWS, WORDS)]
        arrays.append(rng.integers(0, WORDS, ROWS).astype(np.int32))
    plan = plan_anew(backend.engine(0), graph)
    made = plan([backend.upload(0, array) for array in arrays])
    specs = graph.output_specs
    return [np.array(backend.download(0, b, s)) for b, s in zip(made, specs, strict=True)], plan


@pytest.mark.parametrize("long", [False, True], ids=["in registers", "in memory"])
def test_products_take_lines_with_a_pitch(
    long: bool, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = _graph()
    if long:
        # Several turns of a row, as of 50,257 words.
        monkeypatch.setattr(launches, "_LONGEST", 0)
        monkeypatch.setattr(cooperative_rows, "_TEAM", 4)
    for name in ("_PER_COPY", "_PER_BYTE"):
        monkeypatch.setattr(tma_ways, name, 0)
    expected, dense = _run(graph)
    labels = [la.label for work in dense.works for la in work.launches]
    assert "matmul operand padding" in labels
    # Of matrices of any size, so that lanes need seconds.
    for name in ("_LEAST", "_LONG"):
        monkeypatch.setattr(line_pitches, name, 1)
    monkeypatch.setattr(launches, "_CACHED", 1)
    found, plan = _run(graph)
    labels = [la.label for work in plan.works for la in work.launches]
    assert "matmul operand padding" not in labels
    pitched = [t for t in plan.draft.tasks if t.pitches]
    assert [t.op for t in pitched] == ["dot_general", "row_program"]
    number = plan.draft.tasks.index(pitched[1])
    scores, slopes = (next(p for p in t.outputs if p.line[0]) for t in pitched)
    assert scores.line == slopes.line == (WORDS, 256)
    layout, _ = plan.recorder.layout({})
    assert layout.merged.get(scores) is slopes or layout.merged.get(slopes) is scores
    plans = [dict(launch.build.keywords).get("plan") for launch in plan.works[number].launches]
    assert [one.aligned and one.late and one.width > 1 for one in plans] == [long]
    for one, other in zip(found, expected, strict=True):
        if long:
            # Sums along rows in vectors have another order.
            one, other = one.astype(np.float32), other.astype(np.float32)
            np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-2 * np.abs(other).max())
        else:
            np.testing.assert_array_equal(one.view(np.uint16), other.view(np.uint16))


def test_the_loss_of_many_words_takes_whole_vectors_without_spills(compiler: Any) -> None:
    lowerings = Lowerings(_info())
    load_families()
    draft = Planner(lowerings, _graph(4096, 50257, 768), (RowFuser(), ElementwiseFuser())).draft()
    (task,) = (t for t in draft.tasks if t.pitches and t.op == "row_program")
    (launch,) = task.works[0].launches
    plan = dict(launch.build.keywords)["plan"]
    assert (plan.aligned, plan.late, plan.width, plan.unroll) == (True, True, 4, 4)
    text = print_kernel(launch.build.kernel(_info().features), CudaCpp())
    _, program = compiler.nvrtcCreateProgram(text.encode(), b"loss.cu", 0, [], [])
    options = [option.encode() for option in OPTIONS]
    code, *_ = compiler.nvrtcCompileProgram(program, len(options), options)
    _, size = compiler.nvrtcGetProgramLogSize(program)
    log = bytearray(size)
    compiler.nvrtcGetProgramLog(program, log)
    assert code == compiler.nvrtcResult.NVRTC_SUCCESS, log.decode()
    assert "0 bytes spill stores, 0 bytes spill loads" in log.decode()


def _planned(graph: Graph) -> list[Task]:
    load_families()
    return Planner(Lowerings(_info()), graph, (RowFuser(), ElementwiseFuser())).draft().tasks


def _block(x: Any, w: Any) -> Any:
    """A pointwise convolution behind a norm of channels and an activation."""
    y = calor.nn.functional.relu(calor.nn.functional.instance_norm(x.astype(float32)))
    y = calor.nn.functional.conv2d(y.astype(bfloat16), w).astype(float32)
    return calor.sum(y * calor.nn.functional.instance_norm(y))


def test_images_get_lines_with_a_pitch(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = (1, 64, 9, 10), (64, 64, 1, 1)
    with calor.device("numpy"):
        given = [calor.zeros(shape, dtype=bfloat16) for shape in shapes]
        graph = calor.trace(calor.grad(_block, argnums=1), *given)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(bfloat16.numpy) for shape in shapes]
    expected = interpret(graph, arrays)
    copies = "conv channels last", "conv unfold"
    before = [la.label for task in _planned(graph) for la in task.works[0].launches]
    # Of small images, so that lanes need seconds.
    for name in ("_LEAST", "_MORE"):
        monkeypatch.setattr(line_pitches, name, 1)
    found, plan = _run(graph, arrays)
    pitched = [t for t in plan.draft.tasks if t.pitches]
    assert {t.op for t in pitched} == {"row_program"}
    assert {p.line for t in pitched for p in t.outputs if p.line[0]} == {(90, 96)}
    labels = [la.label for work in plan.works for la in work.launches]
    assert sum(map(labels.count, copies)) < sum(map(before.count, copies))
    for one, other in zip(found, expected, strict=True):
        one, other = one.astype(np.float32), np.asarray(other).astype(np.float32)
        np.testing.assert_allclose(one, other, rtol=2e-2, atol=1e-2 * np.abs(other).max())


def test_other_ways_of_products_refuse_a_pitch() -> None:
    said = {"contract": ((1,), (1,)), "batch": ((), ()), "dtype": bfloat16}
    views = tuple(View.dense(spec(shape, bfloat16)) for shape in ((1, 768), (3071, 768)))
    result = spec((1, 3071), bfloat16)
    asked = Request("dot_general", said, views, (result,), _info(), pitches=((3071, 3072),))
    assert isinstance(lower_dot_general(asked), Refusal)


class Families:
    """Stands for the families: dense matrices of odd columns take longer, or nothing does."""

    info = _info()

    def __init__(self, takes: bool, slow: int) -> None:
        self.takes, self.slow = takes, slow

    def dense(self, op: str, number: int) -> bool:
        return False

    def ask(self, op: str, attributes: Any, views: Any, results: Any, settled: bool, **more: Any):
        if more["pitches"] and not self.takes:
            return Refusal("dense results alone")
        odd = any(v.is_dense and v.shape[-1] % 8 for v in views)
        return (_work(self.slow if odd else 1),)


def _work(nbytes: int) -> Work:
    return Work((Launch(Build(copy_lines, ()), (1, 1, 1), (), nbytes=nbytes << 20),))


@pytest.mark.parametrize(
    ("columns", "takes", "slow", "reader", "expected"),
    [
        (50257, True, 9, "dot_general", 2),
        (50257, False, 9, "dot_general", 0),  # the producer refuses
        (50257, True, 1, "dot_general", 0),  # nothing is saved
        (50264, True, 9, "dot_general", 0),  # lines begin at whole accesses
        (1001, True, 9, "dot_general", 0),  # a pitch would waste much
        (50257, True, 9, "conv", 1),  # of another reader the time is not known
    ],
)
def test_lines_get_a_pitch_where_it_saves_time(
    columns: int, takes: bool, slow: int, reader: str, expected: int
) -> None:
    big = spec((4096, columns), bfloat16)
    scores, slopes, last = (Piece("made", big.nbytes) for _ in range(3))
    whole, families = View.dense(big), Families(takes, slow)
    works = families.ask("", {}, (whole,), (), False, pitches=())
    tasks = [
        Task("dot_general", works, (), (scores,), results=(big,)),
        Task("row_program", works, (Value(scores, whole),), (slopes,), results=(big,)),
        Task(reader, works, (Value(slopes, whole),), (last,), results=(big,)),
    ]
    made = line_pitches.with_pitches(tasks, [last], families, False)  # type: ignore[arg-type]
    assert sum(bool(t.pitches) for t in made) == expected
    if expected == 2:
        assert made[1].inputs[0].whole
        assert made[2].inputs[0].whole
        assert made[2].inputs[0].view == View((4096, columns), (50304, 1), bfloat16)
        assert made[1].outputs[0].nbytes == 4096 * 50304 * 2


@pytest.mark.parametrize(
    ("shape", "copies"),
    [((64, 768, 9, 768), 2), ((8, 64, 9, 96), 0), ((64, 768, 7, 768), 0), ((8, 1024, 1, 2560), 0),
     ((1, 512, 512, 512), 0)],
    ids=str,
)  # fmt: skip
def test_products_of_short_lines_are_written_by_tma(shape: Any, copies: int) -> None:
    """Copies of short lines take less than elements through registers; few terms need none."""
    load_families()
    batch, m, k, n = shape
    views = (
        View((batch, m, k), (m * k, k, 1), bfloat16),
        View((batch, k, n), (n * k, 1, k), bfloat16),
    )
    said = {"contract": ((2,), (1,)), "batch": ((0,), (0,))}
    asked = Request("dot_general", said, views, (spec((batch, m, n), bfloat16),), _info())
    works = lower_dot_general(asked)
    assert not isinstance(works, Refusal)
    labels = [launch.label for launch in works[0].launches]
    assert labels.count("matmul operand padding") == copies
    assert ("boxes" in labels[-1]) is (m > 64 and k > 8)
    assert ("unit blocks" in labels[-1]) is (k <= 8)


@pytest.mark.parametrize(("batch", "copies"), [(64, 2), (40, 2), (26, 0)])
def test_tiles_of_a_core_each_take_whole_turns(batch: int, copies: int) -> None:
    """64 matrices have 2.4 tiles for a core, which take three turns; 26 have 0.98, one turn."""
    load_families()
    m, k, n = 577, 577, 128
    views = (
        View((batch, m, k), (m * k, k, 1), float32),
        View((batch, k, n), (n * k, 1, k), float32),
    )
    said = {"contract": ((2,), (1,)), "batch": ((0,), (0,)), "precision": "high"}
    asked = Request("dot_general", said, views, (spec((batch, m, n), float32),), _info())
    works = lower_dot_general(asked)
    assert not isinstance(works, Refusal)
    labels = [launch.label for launch in works[0].launches]
    assert labels.count("matmul operand padding") == copies
