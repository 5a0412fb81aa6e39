"""The speed fuzzer draws the same cases again, repeats a line, survives what its cases do."""

import importlib
import json
from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import fuzz
from fuzzing import checking, report
from fuzzing.cases import Operand, Sample, Work, sample_of
from fuzzing.drawing import draw, sample, turns
from fuzzing.families import FAMILIES, work_of
from fuzzing.limits import GPU, HOST, Limits, fitted, limits_of
from fuzzing.operands import array
from fuzzing.quantiles import by_family, quantile, summary
from fuzzing.workers import Failure, Worker

SMALL = Limits(1.5e6, 3e7)


def test_a_seed_draws_the_same_cases_again() -> None:
    first, again = (list(map(str, islice(draw(7), 50))) for _ in range(2))
    assert first == again
    assert first != list(map(str, islice(draw(8), 50)))


def test_a_case_does_not_depend_on_those_of_other_families() -> None:
    alone = list(map(str, islice(draw(7, ["linear", "pool"]), 12)))
    among = [str(s) for s in islice(draw(7), 400) if s.family in ("linear", "pool")]
    assert alone == among[:12]


def test_families_have_their_share_in_every_stretch() -> None:
    names = [family.name for family in islice(turns(Random(3), FAMILIES), 600)]
    total = sum(family.weight for family in FAMILIES.values())
    for begin in (0, 100, 317):
        counted = Counter(names[begin : begin + 200])
        for name, family in FAMILIES.items():
            assert abs(counted[name] - 200 * family.weight / total) <= 1.5


# What models do: a family, a parameter, and values that a run of some hours must meet.
MET = [
    ("update", "form", {"adam", "clip", "ema"}),
    ("row_norm", "kind", {"residual", "rms_residual"}),
    ("rotary", "form", {"halves", "pairs"}),
    ("gather", "form", {"add", "nodes", "one_hot", "one_hot_product"}),
    ("windows", "form", {"apart", "together"}),
    ("pixels", "form", {"shuffle", "unshuffle", "depth_to_space", "patches"}),
    ("mask", "form", {"causal", "padding", "lower", "upper"}),
    ("recurrent", "cell", {"lstm", "gru", "rnn"}),
    ("running", "axis", {0, 1, 2, 3}),
    ("ordering", "form", {"sort", "sort_columns", "topk", "top_p"}),
    ("einsum", "form", {"bthd,dr,re->bthe", "btd,de,bse->bts", "btd,bsd,bse->bte"}),
    ("product", "k", {3, 4}),
    ("resize", "mode", {"nearest", "bilinear"}),
    ("conv2d", "kernel", {13, (1, 7), (7, 1), 7, 16}),
    ("conv2d", "dilation", {2, 6, 12, 24}),
    ("conv2d", "groups", {2, 4, 8, 32, 64}),
    ("conv1d", "kernel", {3, 11, 16, 41, 75, 251}),
    ("conv1d", "dilation", {1, 5, 512}),
    ("conv3d", "kernel", {3, (1, 3, 3), (3, 1, 1), 5}),
    ("conv_transpose", "stride", {2, 4, 8}),
    (
        "attention_form",
        "form",
        {"windows", "shifted", "band", "alibi", "relative", "latents", "cache"},
    ),
    ("linear_attention", "form", {"kernel", "causal", "retention", "spaces", "channels", "delta"}),
    ("states", "form", {"selective", "step", "decay", "logsumexp", "largest", "product"}),
    ("decoding", "form", {"top_k_filter", "top_p_filter", "beams", "reorder", "quantile", "kth"}),
    ("experts", "form", {"route", "places", "dispatch", "combine", "masks", "layers", "gathered"}),
    ("segments", "form", {"sum", "mean", "max", "softmax", "gate", "norm", "edges", "pooled"}),
    ("tables", "form", {"bag", "weighted", "largest", "interaction", "machine", "fields"}),
    ("points", "form", {"distances", "nearest", "grouped", "global", "chamfer", "interpolated"}),
    (
        "image",
        "form",
        {"grid", "warp", "adaptive", "spatial_pyramid", "border", "unfold", "squeeze"},
    ),
    ("image", "mode", {"bilinear", "bicubic", "corners", "area", "reflect", "edge", "wrap"}),
    ("loss", "form", {"ctc", "contrastive", "focal", "dice", "policy", "distilled", "triplet"}),
    ("boxes", "form", {"overlap", "general", "suppressed", "cost", "decoded"}),
    ("norm_form", "form", {"heads", "instance", "channels", "modulated", "groups_silu", "weights"}),
    ("optimizer", "form", {"adamw", "lion", "adafactor", "muon", "lamb", "half_weights"}),
    ("spectrum", "form", {"mix", "operator", "long", "frames", "filter", "series"}),
    ("factor", "form", {"process", "ridge", "whiten", "precondition", "flow", "filter", "project"}),
]


@pytest.mark.parametrize(("family", "parameter", "values"), MET)
def test_what_models_do_is_drawn(family: str, parameter: str, values: set[Any]) -> None:
    seen = {drawn.parameters[parameter] for drawn in islice(draw(5, [family]), 600)}
    assert values <= seen


def test_windows_are_drawn_up_to_the_largest_that_models_have() -> None:
    kernels: list[Any] = [drawn.parameters["kernel"] for drawn in islice(draw(5, ["conv2d"]), 300)]
    assert max(max(k) if isinstance(k, tuple) else k for k in kernels) >= 27
    assert sum(isinstance(k, tuple) for k in kernels) > 10


def test_an_unknown_family_is_named() -> None:
    with pytest.raises(ValueError, match="no family 'linaer'; there are: linear"):
        next(draw(0, ["linaer"]))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_line_of_a_case_is_the_case(name: str) -> None:
    for number in range(100):
        drawn = sample(FAMILIES[name], Random(number))
        again = sample_of(str(drawn))
        assert again == drawn
        assert again.parameters == drawn.parameters


@pytest.mark.parametrize("line", ["", "linear", "linear f33 forward k=1", "linear f32 onward k=1"])
def test_a_line_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is no case"):
        sample_of(line)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("limits", [GPU, HOST, SMALL], ids=["gpu", "host", "small"])
def test_cases_fit_their_device(name: str, limits: Limits) -> None:
    found = 0
    for number in range(60):
        fitting = fitted(sample(FAMILIES[name], Random(number)), limits)
        if fitting is not None:
            work = work_of(fitting)
            found += 1
            assert limits.allow(fitting)
            assert all(size > 0 for operand in work.operands for size in operand.shape)
    assert found >= (1 if limits is SMALL else 36)


def test_what_a_launch_of_wgpu_does_not_see_is_made_smaller() -> None:
    line = "product f32 forward batch=8x16 m=1024 k=64 n=4096 left=heads right=plain"
    assert str(fitted(sample_of(line), limits_of("cuda:1"))) == line
    smaller = fitted(sample_of(line), limits_of("wgpu:1"))
    assert smaller is not None
    assert str(smaller) == line.replace("m=1024", "m=512")


@pytest.mark.parametrize("name", sorted({*FAMILIES} - {"update", "optimizer"}))
def test_the_results_of_each_form_have_their_shape(name: str) -> None:
    torch, calor = pytest.importorskip("torch"), pytest.importorskip("calor")
    seen = set()
    for number in range(60):
        drawn = fitted(sample(FAMILIES[name], Random(f"shapes {number}")), SMALL)
        form = drawn and drawn.parameters.get("form", drawn.parameters.get("kind"))
        if drawn is None or form in seen:
            continue
        seen.add(form)
        work = work_of(drawn)
        kinds = ["int64" if o.kind == "index" else "float32" for o in work.operands]
        pairs = list(zip(work.operands, kinds, strict=True))
        with torch.no_grad():
            given = [torch.empty(o.shape, dtype=getattr(torch, k), device="meta") for o, k in pairs]
            assert tuple(work.theirs(*given).shape) == work.made
        with calor.device("numpy"):
            mine = work.ours(*[calor.zeros(o.shape, dtype=k) for o, k in pairs])
        assert tuple(mine.shape) == work.made


@pytest.mark.parametrize("name", FAMILIES)
def test_small_cases_agree_with_torch_on_the_host(name: str) -> None:
    pytest.importorskip("torch")
    from fuzzing.sides import Calor, Torch

    seen = 0
    for number in range(40):
        drawn = fitted(sample(FAMILIES[name], Random(f"tests {number}")), SMALL)
        if drawn is None or seen == 2:
            continue
        seen += 1
        drawn = drawn.with_dtypes(("f32",))
        work = work_of(drawn)
        ours, theirs = Calor("numpy", drawn, work, 1), Torch("cpu", drawn, work, 1)
        mine, others = ours.results(), theirs.results()
        near = checking.tolerance(drawn, work, exact=True)
        given = array(work.operands[0], 0)
        assert checking.problems(work, near, mine, others, given, theirs.exact) == ("", "")
        assert name in ("update", "optimizer") or mine[0].shape == work.made


def test_quantiles_are_between_the_nearest() -> None:
    assert quantile([1.0, 2.0, 4.0], 0.5) == 2.0
    assert quantile([1.0, 2.0, 4.0], 0.25) == 1.5
    assert quantile([3.0], 0.95) == 3.0
    assert summary([]) == {"cases": 0}
    assert summary([2.0, 1.0])["min"] == 1.0


def test_quantiles_of_a_family_count_its_rows_alone() -> None:
    rows = [{"family": f, "ratio": r} for f, r in (("a", 1.0), ("b", 3.0), ("a", 2.0), ("b", None))]
    found = by_family(rows)
    assert (found["all"]["cases"], found["a"]["50%"], found["b"]["cases"]) == (3, 1.5, 1)


Array = np.ndarray[Any, Any]
A = np.array([1.0, 100.0], np.float32)


@pytest.mark.parametrize(
    ("ours", "theirs", "right", "blamed"),
    [
        (A, A, None, ""),
        (A * 1.1, A, A, "ours"),
        (A, A * 1.1, A, "peer"),
        (A * 1.1, A, None, "ours"),
        (A[:1], A, A, "ours"),
        (A * np.float32(np.nan), A, A, "ours"),
    ],
    ids=["equal", "ours off", "peer off", "nobody knows", "shapes", "nan"],
)
def test_who_is_wrong_is_told(ours: Array, theirs: Array, right: Array | None, blamed: str) -> None:
    work = Work((Operand((2,)),), max, max, (2,))
    exact = None if right is None else [right]
    said = checking.problems(work, 1e-4, [ours], [theirs], A, lambda: exact)
    assert [bool(text) for text in said] == [blamed == "ours", blamed == "peer"]


def test_tails_of_functions_have_no_digits_to_compare() -> None:
    tail, zero, one = (np.array([x], np.float32) for x in (-6.7e-23, -0.0, 1.0))
    assert checking.apart(tail, zero) < 1e-9
    assert checking.apart(np.array([1e-9], np.float32), zero) > 1
    assert checking.apart(np.concatenate([tail, one]), np.concatenate([zero, one])) < 1e-9


# What a worker runs, of a module that its process can import.
ANSWERING = """
import os, time

def serve(pipe, word):
    pipe.send("ready")
    while True:
        question = pipe.recv()
        if question == "die":
            os._exit(9)
        if question == "hang":
            time.sleep(60)
        if question == "take turns":
            pipe.send("waits for its turn")
            time.sleep(0.6)
            pipe.send("goes on")
        if question.startswith("take turns, then"):
            pipe.send("waits for its turn")
            pipe.send("goes on")
            time.sleep(60)
        if question.startswith("end"):
            pipe.send("ends after the answer")
        pipe.send(f"{word} {question}")
        if question == "die unasked":
            os._exit(9)
"""


def test_a_worker_outlives_cases_that_die_or_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "answering_worker.py").write_text(ANSWERING, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    serve = importlib.import_module("answering_worker").serve
    worker = Worker(serve, ("said",), timeout=5.0)
    try:
        assert worker.ask("a") == "said a"
        died = worker.ask("die")
        assert isinstance(died, Failure)
        assert "exit code 9" in died.message
        worker.timeout = 0.2
        hung = worker.ask("hang")
        assert isinstance(hung, Failure)
        assert "more than 0 seconds" in hung.message
        worker.timeout = 5.0
        assert worker.ask("b") == "said b"
        # Others that measure are not the case's time; what comes then is.
        worker.timeout = 0.3
        assert worker.ask("take turns") == "said take turns"
        assert isinstance(worker.ask("take turns, then hang"), Failure)
        assert worker.starts == 3
    finally:
        worker.close()


def test_a_process_that_is_over_fails_no_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ending_worker.py").write_text(ANSWERING, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    worker = Worker(importlib.import_module("ending_worker").serve, ("said",), timeout=5.0)
    try:
        assert worker.ask("end") == "said end"
        assert worker.process is None, "an answer was the last"
        assert worker.ask("die unasked") == "said die unasked"
        running: Any = worker.process
        running.join(5)
        assert worker.ask("a") == "said a"
        assert worker.starts == 3
    finally:
        worker.close()


def test_a_run_writes_its_rows_and_says_the_worst(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "result.json"
    line = "elementwise f32 gradient shape=3x5 form=add broadcast=row"
    bad = "elementwise f32 forward shape=3x5 form=nothing broadcast=row"
    arguments = ["--device", "numpy", "--json", str(path), "--repeat", line, "--repeat", bad]
    assert fuzz.main(arguments) == 1
    document = json.loads(path.read_text("utf-8"))
    (row,) = document["rows"]
    assert (row["case"], row["family"], row["direction"]) == (line, "elementwise", "gradient")
    assert row["ratio"] == row["peer_s"] / row["ours_s"]
    assert document["quantiles"]["all"]["cases"] == 1
    assert document["command"].startswith("python benchmarks/fuzz.py --device numpy")
    assert document["failures"] == [f"{bad}: KeyError: 'nothing'"]
    printed = capsys.readouterr().out
    assert f"--repeat '{line}'" in printed


def test_gradients_behind_a_bend_may_be_further_apart() -> None:
    line = "linear {} gradient rows=4x k=8 n=8 bias=1 after={} layout=plain"

    def near(dtype: str, after: str) -> float:
        drawn = sample_of(line.format(dtype, after))
        return checking.tolerance(drawn, work_of(drawn), exact=True)

    assert near("bf16", "relu") == 4 * near("bf16", "gelu")
    # Gradients whose numbers are on the other side of the bend are as many as roundings are large.
    apart = near("f32", "relu")
    assert apart**2 > near("f32", "gelu") / 10
    assert apart < 1e-2


@pytest.mark.parametrize(("after", "blamed"), [("relu", False), ("gelu", True)])
def test_a_number_behind_a_bend_may_be_lost(after: str, blamed: bool) -> None:
    drawn = sample_of(f"linear f16 gradient rows=4x k=8 n=8 bias=1 after={after} layout=plain")
    work = work_of(drawn)
    near = checking.tolerance(drawn, work, exact=False)
    right = np.ones(100_000, np.float32)
    right[0] = 4.0
    ours = right.copy()
    ours[0] = 0.0
    single = checking.single_of(drawn, near)
    said = checking.problems(work, near, [ours], [right], right, lambda: [right], single)
    assert [bool(text) for text in said] == [blamed, False]
    # More than the largest is lost nowhere.
    ours[0] = -4.0
    assert checking.problems(work, near, [ours], [right], right, lambda: [right], single)[0]


def test_a_slow_first_call_is_told() -> None:
    row = {"ratio": 1.0, "ours_s": 1e-3, "peer_s": 1e-3, "floor_s": 5e-4, "first_s": 3.2,
           "case": "linear", "note": ""}  # fmt: skip
    assert "(the first call took 3.2 s)" in report.line(row)
    assert "took" not in report.line({**row, "first_s": 0.5})


def test_a_dtype_that_a_device_has_not_becomes_its_first() -> None:
    drawn = Sample("linear", "f16", False, {})
    assert drawn.with_dtypes(("f32", "bf16")).dtype == "f32"
    assert drawn.with_dtypes(("f32", "f16")).dtype == "f16"


@pytest.mark.parametrize(
    ("line", "views"),
    [
        ("reduction f32 gradient form=sum shape=8x6 axes=0x1 layout=plain", (0,)),
        ("elementwise f32 gradient shape=3x5 form=add broadcast=same", (0, 1)),
        ("elementwise f32 gradient shape=3x5 form=multiply broadcast=same", ()),
        ("moving f32 gradient form=concat shape=3x5 axis=1 part=0.5 count=3", (0, 1, 2)),
    ],
)
def test_gradients_without_memory_of_their_own_are_copied(line: str, views: Any) -> None:
    pytest.importorskip("torch")
    from fuzzing.sides import Torch

    drawn = sample_of(line)
    side = Torch("cpu", drawn, work_of(drawn), 1)
    assert side.views == views
    results = [*side.call(side.sets[0]), side.sets[0][-1]]
    assert len({x.data_ptr() for x in results}) == len(results)
    assert all(x.is_contiguous() for x in results)
