"""Which candidate is taken: by the cost model, by the clock, by what is stored."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import bfloat16, float32, int64
from calor.errors import CompileError, UnsupportedError
from calor.specs import spec
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.contract.cost import Ceilings
from calor_kernel.contract.work import (
    DENSE,
    LOWERINGS,
    Build,
    Candidates,
    Dropped,
    Input,
    Launch,
    Output,
    View,
    Work,
)
from calor_kernel.device.storage import Lines
from calor_kernel.errors import KernelCheckError
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import kernel, loop_range
from calor_kernel.planning.lowering import load_families
from calor_kernel.planning.values import Piece, Task, Value
from calor_kernel.runtime import autotune, bundles
from calor_kernel.runtime.autotune import task_key
from calor_kernel.runtime.backend import KernelBackend


@kernel
def negate(x, y, n, *, turns, wrong):
    for _ in range(turns):
        for i in loop_range(n):
            y[i] = x[i] * (1.0 if wrong else -1.0)


def candidates(request):
    (x,) = request.inputs
    signature = (Buffer(float32), Buffer(float32), Scalar(int64, nonnegative=True))
    made = []
    for number, (turns, wrong) in enumerate(BLUEPRINTS):
        build = Build(negate, signature, (("turns", turns), ("wrong", wrong)))
        launch = Launch(
            build, (1, 1, 1), (Input(0, x.offset), Output(), x.size), label=f"negate.{turns}"
        )
        made.append(Work((launch,), group=GROUPS[number], variant=VARIANTS[number]))
    return Candidates.of(made, [Dropped("wide", "it does not fit")])


INFO = replace(ONE_UNIT, native={"ceilings": Ceilings(1e12, 1e12)})
BLUEPRINTS = [(6, False), (1, False), (4, False)]
GROUPS = [0, 0, 0]
VARIANTS = ["", "", ""]


@pytest.fixture
def tuned(monkeypatch):
    load_families()
    monkeypatch.setitem(LOWERINGS, "neg", candidates)
    monkeypatch.setitem(DENSE, "neg", None)
    monkeypatch.setenv("CALOR_TUNE", "on")

    def engine(mode=None):
        if mode is not None:
            monkeypatch.setenv("CALOR_TUNE", mode)
        device = LanesDevice(INFO, checks=False)
        backend = KernelBackend("tuned", lambda index: device)
        return backend, backend.engine(0)

    return engine


def negated(backend, size=16):
    """Negate on a backend, and return the label of the candidate that did it."""
    with calor.device(device_of(backend, 0)):
        graph = calor.trace(lambda x: -x, calor.asarray(np.ones(size, np.float32)))
        plan = backend.compile(0, graph)
        made = plan([backend.upload(0, np.arange(size, dtype=np.float32))])
        found = backend.download(0, made[0], graph.output_specs[0])
        assert (found == -np.arange(size)).all()
        (launched,) = plan.base.recording.launches[0]
        return launched.launch.label


def test_the_fastest_is_taken_and_kept(tuned, monkeypatch):
    backend, engine = tuned()
    assert negated(backend) == "negate.1"
    assert engine.tuner.timed == 3
    assert negated(backend, 15) == "negate.1"
    assert negated(backend, 9) == "negate.1"
    assert engine.tuner.timed == 3
    assert engine.pool.in_use >= 0
    monkeypatch.setenv("CALOR_TUNE", "stored")
    other, engine = tuned()
    assert negated(other) == "negate.1"
    assert negated(other, 40) == "negate.6"
    assert engine.tuner.timed == 0


@pytest.mark.parametrize(("name", "value"), [("CALOR_TUNE", "off"), ("CALOR_DETERMINISTIC", "1")])
def test_the_first_is_taken_where_nothing_is_tuned(tuned, monkeypatch, name, value):
    backend, _ = tuned()
    negated(backend)
    monkeypatch.setenv(name, value)
    backend, engine = tuned()
    assert negated(backend) == "negate.6"
    assert engine.tuner.timed == 0


def test_a_dry_run_says_what_it_would_time(tuned, monkeypatch, capsys):
    monkeypatch.setenv("CALOR_TUNE", "dry")
    backend, engine = tuned()
    assert negated(backend) == "negate.6"
    assert engine.tuner.timed == 0
    assert "would time 3 candidates of neg: neg(float32[16])" in capsys.readouterr().err


def test_a_dry_run_explains_a_single_candidate(tuned, monkeypatch, capsys):
    monkeypatch.setattr(sys.modules[__name__], "BLUEPRINTS", [(6, False)])
    monkeypatch.setenv("CALOR_TUNE", "dry")
    backend, _ = tuned()
    negated(backend)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("takes negate.6 for neg: neg(float32[16])")
    assert second == "  drops out: wide: it does not fit"


def test_a_dry_run_lists_groups_and_what_drops_out(tuned, monkeypatch, capsys):
    monkeypatch.setattr(sys.modules[__name__], "GROUPS", [0, 2, 1])
    monkeypatch.setattr(sys.modules[__name__], "VARIANTS", ["", "single", ""])
    monkeypatch.setenv("CALOR_TUNE", "dry")
    backend, _ = tuned()
    negated(backend)
    assert capsys.readouterr().err.splitlines()[1:] == [
        "  group 0: negate.6",
        "  group 1, beyond 1.2 times the roofline: negate.4",
        "  group 2, beyond 1.5 times the roofline: single",
        "  drops out: wide: it does not fit",
    ]


@pytest.mark.parametrize(
    ("share", "label", "timed"), [(1.15, "negate.6", 1), (1.3, "negate.4", 2), (2, "negate.1", 3)]
)
def test_a_later_group_is_timed_where_something_is_left_to_gain(
    tuned, monkeypatch, share, label, timed
):
    """Every candidate takes ``share`` of the roofline's time or less, and none is near it."""
    monkeypatch.setattr(sys.modules[__name__], "GROUPS", [0, 2, 1])
    monkeypatch.setattr(autotune.Trial, "time", lambda trial, work, best: times[work.group])
    monkeypatch.setattr(autotune, "work_seconds", lambda work, ceilings: 1.0)
    times = {0: share, 1: share - 0.01, 2: share - 0.02}
    backend, engine = tuned()
    assert negated(backend) == label
    assert engine.tuner.timed == timed


def test_what_does_not_compile_drops_out_with_its_reason(tuned, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "VARIANTS", ["slow", "quick", "wide"])

    def refusing(trial, work, best):
        if work.variant == "quick":
            raise CompileError("it has too few registers")
        return {"slow": 2.0, "wide": 1.0}[work.variant]

    monkeypatch.setattr(autotune.Trial, "time", refusing)
    backend, engine = tuned()
    assert negated(backend) == "negate.4"
    (found,) = engine.tuner.dropped.values()
    assert found == [
        Dropped("wide", "it does not fit"),
        Dropped("quick", "it has too few registers"),
    ]


def test_candidates_are_wanted_where_they_are_timed_or_were(tuned, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "VARIANTS", ["slow", "quick", "middle"])
    backend, engine = tuned()
    assert engine.tuner.wants("neg")
    assert engine.tuner.wants("dot_general")
    negated(backend)
    for mode, wanted in (("stored", True), ("off", False), ("dry", True)):
        monkeypatch.setenv("CALOR_TUNE", mode)
        backend, engine = tuned()
        assert engine.tuner.wants("neg") == wanted
        assert engine.tuner.wants("dot_general") == (mode == "dry")
    monkeypatch.setenv("CALOR_TUNE", "stored")
    # A variant is found by its name, whatever its kernels are built from at another size.
    monkeypatch.setattr(sys.modules[__name__], "BLUEPRINTS", [(6, False), (2, False), (4, False)])
    backend, engine = tuned()
    assert negated(backend) == "negate.2"


def test_a_bundle_is_below_own_measurements(tuned, monkeypatch, tmp_path):
    monkeypatch.setattr(sys.modules[__name__], "VARIANTS", ["slow", "quick", "middle"])
    backend, engine = tuned()
    negated(backend)
    (tmp_path / "bundles").mkdir()
    data = backend.bundle(0)
    assert [*data["choices"].values()] == [["quick", pytest.approx(6, rel=0.9)]]
    data["choices"] = {key: ["middle", 2.0] for key in data["choices"]}
    (tmp_path / "bundles" / "one.json").write_text(json.dumps(data), "utf-8")
    monkeypatch.setattr(bundles, "tuned", lambda: {"acme": tmp_path / "bundles"})
    monkeypatch.setenv("CALOR_TUNE", "stored")
    assert negated(tuned(mode="stored")[0]) == "negate.1"
    # Without own measurements the bundle counts, unless it is not asked, or all is measured.
    monkeypatch.setenv("CALOR_CACHE", "0")
    assert negated(tuned(mode="own")[0]) == "negate.6"
    assert negated(tuned(mode="on")[0]) == "negate.1"
    backend, engine = tuned(mode="stored")
    assert engine.tuner.wants("neg")
    assert not engine.tuner.wants("abs")
    assert negated(backend) == "negate.4"
    assert backend.diagnosis() == [
        ("one.json of acme on tuned:0", f"1 choices for {INFO.cores} cores")
    ]
    monkeypatch.setattr(sys.modules[__name__], "VARIANTS", ["slow", "quick", "renamed"])
    assert negated(tuned(mode="stored")[0]) == "negate.6"


def test_an_unknown_mode(tuned, monkeypatch):
    monkeypatch.setenv("CALOR_TUNE", "sometimes")
    with pytest.raises(ValueError, match="CALOR_TUNE='sometimes'"):
        tuned()


def test_check_mode_finds_the_wrong_candidate(tuned, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "BLUEPRINTS", [(2, False), (1, True)])
    monkeypatch.setenv("CALOR_TUNE_CHECK", "1")
    backend, _ = tuned()
    with pytest.raises(KernelCheckError, match="negate.1"):
        negated(backend)


def task(*shapes, strides=None, offset=0):
    values = []
    for shape in shapes:
        view = View.dense(spec(shape, float32))
        if strides is not None:
            view = View(shape, strides, float32, offset)
        values.append(Value(Piece("input", 0), view))
    return Task("neg", (), tuple(values), (), {"axis": 1}, (spec(shapes[0], float32),))


@pytest.mark.parametrize(
    ("a", "b", "alike"),
    [
        (task((17, 5)), task((32, 8)), True),
        (task((17, 5)), task((16, 5)), False),
        (task((0, 5)), task((1, 5)), False),
        (task((20, 20), strides=(1, 20)), task((30, 30), strides=(1, 30)), True),
        (task((20, 20), strides=(1, 20)), task((20, 20)), False),
        (task((20, 20), strides=(0, 1)), task((20, 20), strides=(20, 1)), False),
        (task((20, 20), strides=(40, 2)), task((20, 20), strides=(40, 1)), False),
    ],
)
def test_keys_are_anchored(a, b, alike):
    assert (task_key(a) == task_key(b)) == alike


def test_keys_have_what_a_task_is_beside_its_operands():
    one = task((4, 8))
    others = [
        replace(one, op="abs"),
        replace(one, attributes={"axis": 0}),
        replace(one, results=(spec((4, 8), bfloat16),)),
    ]
    assert len({task_key(each) for each in (one, *others)}) == 4


def test_results_are_kept_unless_nothing_is(monkeypatch, own_cache):
    autotune.tuning_lines("a device").put("key", 1)
    assert autotune.tuning_lines("a device").get("key") == 1
    assert autotune.tuning_lines("another").get("key") is None
    files = [*own_cache.rglob("*.lines")]
    monkeypatch.setenv("CALOR_CACHE", "0")
    assert autotune.tuning_lines("a device").get("key") is None
    autotune.tuning_lines("another").put("key", 1)
    assert [*own_cache.rglob("*.lines")] == files


def test_lines_outlive_damage_and_other_writers(tmp_path):
    path, shipped = tmp_path / "own", tmp_path / "shipped"
    Lines(shipped).put("a", 1)
    Lines(shipped).put("b", 2)
    lines = Lines(path, [shipped])
    lines.put("b", {"x": [1, 2]})
    Lines(path).put("c", "text")
    with path.open("ab") as file:
        file.write(b'00000000 ["a",9]\nhalf a li')
    again = Lines(path, [shipped])
    assert [again.get(k) for k in "abcd"] == [1, {"x": [1, 2]}, "text", None]
    assert Lines(None).get("a") is None
    (tmp_path / "file").write_text("")
    lost = Lines(tmp_path / "file" / "x")
    lost.put("a", 3)
    assert lost.get("a") == 3


WRITER = """
import sys
from pathlib import Path
from calor_kernel.device.storage import Lines
lines = Lines(Path(sys.argv[1]))
for n in range(200):
    lines.put(f"{sys.argv[2]} {n}", n)
"""


def test_processes_append_at_once(tmp_path):
    path = tmp_path / "lines"
    processes = [subprocess.Popen([sys.executable, "-c", WRITER, path, str(n)]) for n in range(3)]
    assert [p.wait() for p in processes] == [0, 0, 0]
    assert len(Lines(path)) == 600


def label_of(jitted):
    (launched,) = jitted.programs[0].executable.base.recording.launches[0]
    return launched.launch.label


def test_tuning_a_program_replaces_its_kernels_and_runs_nothing(tuned, monkeypatch):
    monkeypatch.setenv("CALOR_TUNE", "stored")
    backend, engine = tuned()
    with calor.device(device_of(backend, 0)):
        state = calor.asarray(np.arange(16, dtype=np.float32))

        @calor.jit
        def step(x):
            state[:] = -x

        bound = step.bind(state)
        step(state)
        assert label_of(step) == "negate.6"
        before = state.numpy()
        found = calor.tune(bound)
        assert (found.problems, found.timed, found.changed, found.left) == (1, 3, 1, 0)
        assert (state.numpy() == before).all()
        assert step.trace_count == len(step.programs) == 1
        assert label_of(step) == "negate.1"
        bound()
        assert (state.numpy() == -before).all()
        again = calor.tune(step, state)
        assert (again.problems, again.timed, again.changed) == (1, 0, 1)
    # Other programs have the stored results too.
    assert negated(backend, 9) == "negate.1"
    assert engine.tuner.mode == "stored"


def test_tuning_ends_with_its_time(tuned, monkeypatch):
    monkeypatch.setenv("CALOR_TUNE", "stored")
    clock = iter(range(100))
    monkeypatch.setattr(autotune, "perf_counter", lambda: float(next(clock)))
    backend, _ = tuned()
    with calor.device(device_of(backend, 0)):
        found = calor.tune(calor.jit(lambda x: -x), calor.ones(16), seconds=0.5)
    assert (found.problems, found.timed, found.left) == (1, 0, 1)
    assert "no time was left for 1" in str(found)


def test_a_deterministic_device_is_not_tuned(tuned, monkeypatch):
    monkeypatch.setenv("CALOR_DETERMINISTIC", "1")
    backend, _ = tuned()
    with (
        calor.device(device_of(backend, 0)),
        pytest.raises(UnsupportedError, match="CALOR_DETERMINISTIC=1 asks for the same bits"),
    ):
        calor.tune(calor.jit(lambda x: -x), calor.ones(16))
