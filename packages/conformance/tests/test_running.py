"""Runs: excuses, packs, budgets, resuming, shards, and what failures say."""

from __future__ import annotations

import gc
import itertools
import json
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import Device, device_of
from calor.backends.numpy_backend import NumpyBackend
from calor.backends.protocol import FULL, NOT_YET, Info, State, impossible
from calor.errors import ArgumentError, CalorError, DeviceError, FormatError
from calor.plugins.discovery import get_device
from calor_conformance import collecting, outcomes, packing, running, suite
from calor_conformance.checks.base import Check, Place
from calor_conformance.collecting import quick_collections
from calor_conformance.outcomes import Result
from calor_conformance.selection import PROFILES, Selection, selection

CHECKS = suite.checks()
_numbers = itertools.count()


class Odd(NumpyBackend):
    """The reference with another description, and with some functions replaced."""

    def __init__(self, replaced: dict[str, Any] | None = None, **described: Any) -> None:
        super().__init__()
        self.name = f"odd{next(_numbers)}"
        self._replaced = replaced or {}
        features = {**self._info.features, **described.pop("features", {})}
        self._info = Info(description="an odd device", features=features, **described)

    def table(self, index: int) -> Any:
        return {**super().table(index), **self._replaced}


def place(backend: NumpyBackend) -> Place:
    device = device_of(backend, 0)
    return Place(device, device)


def ask(name: str, backend: NumpyBackend) -> Result:
    return outcomes.run(CHECKS[name], place(backend))


NO_DOUBLE = {calor.float32: FULL, calor.int32: NOT_YET}
EXCUSES: list[tuple[str, dict[str, Any], str, str]] = [
    ("values/add/float64", {"dtypes": NO_DOUBLE}, "impossible", "float64 is impossible"),
    ("values/add/int32", {"dtypes": NO_DOUBLE}, "not_yet", "int32 is not_yet"),
    ("values/exp/float32", {"ops": {"exp": impossible("no unit")}}, "impossible", "no unit"),
    ("values/exp/float32", {"ops": {"exp": NOT_YET}}, "not_yet", "exp in float32 is not_yet"),
    ("memory/running_out", {"features": {"memory_limit": NOT_YET}}, "not_yet", "memory_limit"),
    (
        "state/values_do_not_alias",
        {"features": {"interactive": impossible("compiling takes minutes")}},
        "impossible",
        "compiling takes minutes",
    ),
    (
        "sizes/add-1048579/float32",
        {"limits": {"max_buffer_bytes": 1 << 20}},
        "impossible",
        "an array of 4194316 bytes is impossible (at most 1048576 fit)",
    ),
]


@pytest.mark.parametrize(("name", "described", "outcome", "why"), EXCUSES)
def test_what_is_declared_is_skipped_and_counted(
    name: str, described: dict[str, Any], outcome: str, why: str
) -> None:
    result = ask(name, Odd(**described))
    assert result.outcome == outcome
    assert why in result.detail


def test_a_device_that_only_runs_programs_is_asked_through_jit() -> None:
    odd = Odd(features={"interactive": impossible("compiling takes minutes")})
    for name in ("values/add/float32", "views/add-flipped/float32", "gradient/tanh/float64",
                 "second-order/tanh/float64", "forward-mode/tanh/float64",
                 "shapes/add-broadcast/float32", "features/interactive"):  # fmt: skip
        assert ask(name, odd) == Result(name, "passed", "", pytest.approx(0, abs=60))


class Refusing(Odd):
    """Refuses exp in its claim, whatever its info says."""

    def claim(self, index: int, graph: Any) -> Any:
        claim = super().claim(index, graph)
        reasons = {i: "no time" for i, n in enumerate(graph.nodes) if n.op.name == "exp"}
        parts = tuple(tuple(i for i in p if i not in reasons) for p in claim.parts)
        return type(claim)(tuple(p for p in parts if p), {**claim.reasons, **reasons})


def test_an_op_that_claim_refuses_is_not_yet_unless_info_calls_it_full() -> None:
    silent = ask("values/exp/float32", Refusing())
    assert (silent.outcome, silent.detail) == ("not_yet", "exp: no time")
    loud = ask("values/exp/float32", Refusing(ops={"exp": FULL}))
    assert loud.outcome == "failed"
    assert "info says that exp is full, and claim refuses it: no time" in loud.detail


def wrong_exp(x: Any) -> Any:
    return np.exp(x) + (np.asarray(x) > 2)


def test_a_failure_shows_contract_smallest_input_and_graph() -> None:
    result = ask("values/exp/float32", Odd({"exp": wrong_exp}))
    assert result.outcome == "failed"
    assert "ulp" in result.detail
    assert "declare it in info: ops={('exp', float32): impossible(reason)}" in result.detail
    (line,) = [t for t in result.detail.splitlines() if t.startswith("smallest failing input")]
    (number,) = line.split("[")[1].rstrip("]").split()
    assert float(number) > 2
    assert "exp(%0)" in result.detail


def test_an_error_that_is_not_typed_is_a_failure() -> None:
    def broken(x: Any) -> Any:
        raise SystemError("the driver said 42")

    result = ask("values/exp/float32", Odd({"exp": broken}))
    assert result.outcome == "failed"
    assert "the driver said 42" in result.detail


@pytest.mark.parametrize("frozen", [False, True])
def test_what_the_caller_froze_stays_frozen(frozen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "_others", False)
    gc.freeze() if frozen else gc.unfreeze()
    with quick_collections():
        pass
    left = gc.get_freeze_count()
    gc.freeze()
    assert bool(left) == frozen


def test_a_long_run_frees_what_was_frozen_and_became_garbage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collecting, "_ALL_AGAIN", 3)
    monkeypatch.setattr(collecting, "_begun", 0)

    class Circle:
        def __init__(self) -> None:
            self.own = self

    with quick_collections():
        circle = Circle()
        gone = weakref.ref(circle)
        with quick_collections():
            pass
        del circle
        with quick_collections():
            gc.collect()
            assert gone() is not None
        with quick_collections():
            assert gone() is None


def some(*names: str) -> list[Check]:
    return [CHECKS[n] for n in names]


VALUES = ("values/add/float32", "values/exp/float32", "values/mul/float32")


class Late(Odd):
    """A device that tells a failure of work that nobody reads to who waits next."""

    late: CalorError | None = DeviceError("an index was out of range")

    def synchronize(self, index: int) -> None:
        error, self.late = self.late, None
        if error is not None:
            raise error


def test_an_error_that_a_check_left_is_not_the_next_one_s() -> None:
    def wait(place: Place) -> None:
        calor.synchronize()

    waits = Check("state", "waits", "full", "a device waits", wait, lambda: "")
    assert outcomes.run(waits, place(Late())).outcome == "passed"


def test_packs_hold_what_can_share_a_graph() -> None:
    checks = some(*VALUES[:2], "memory/figures", VALUES[2])
    assert [len(p) for p in packing.packs(checks, 64)] == [1, 3]
    assert [len(p) for p in packing.packs(checks, 1)] == [1, 1, 1, 1]


def test_a_pack_is_one_plan_and_names_what_fails() -> None:
    backend = Odd({"exp": wrong_exp})
    device = device_of(backend, 0)
    results = packing.run(some(*VALUES), Place(device, device))
    assert [r.outcome for r in results] == ["passed", "failed", "passed"]
    fine = device_of(Odd(), 0)
    packing.run(some(*VALUES), Place(fine, fine))
    assert fine.plans_made == 1


def test_what_fails_only_in_company_is_a_failure_that_says_so() -> None:
    class Crowded(Odd):
        """Gives exp wrong in graphs of more than one node."""

        def compile(self, index: int, graph: Any) -> Any:
            self._replaced = {"exp": wrong_exp} if len(graph.nodes) > 1 else {}
            return super().compile(index, graph)

    results = packing.run(some(*VALUES), place(Crowded()))
    assert results[1].outcome == "failed"
    assert "passes alone and fails in a larger graph" in results[1].detail


def test_what_fails_in_company_names_the_others_that_it_needs() -> None:
    class Joining(Odd):
        """Gives exp wrong in graphs that also multiply."""

        def compile(self, index: int, graph: Any) -> Any:
            joined = {"exp", "mul"} <= {node.op.name for node in graph.nodes}
            self._replaced = {"exp": wrong_exp} if joined else {}
            return super().compile(index, graph)

    names = (*VALUES, "values/sub/float32", "values/neg/float32")
    results = {r.name: r for r in packing.run(some(*names), place(Joining()))}
    assert [n for n, r in results.items() if r.outcome == "failed"] == ["values/exp/float32"]
    told = results["values/exp/float32"].detail
    assert told.endswith("It fails again with these others: values/mul/float32.")


def test_what_failed_once_in_company_names_all_others() -> None:
    calls = itertools.count()

    def once(x: Any) -> Any:
        return np.exp(x) if next(calls) else wrong_exp(x)

    told = packing.run(some(*VALUES), place(Odd({"exp": once})))[1].detail
    assert told.endswith("the same others: values/add/float32 values/mul/float32.")


def test_an_error_in_a_pack_leaves_the_others_their_answers() -> None:
    def broken(x: Any) -> Any:
        raise MemoryError

    results = packing.run(some(*VALUES), place(Odd({"exp": broken})))
    assert [r.outcome for r in results] == ["passed", "failed", "passed"]


def test_an_error_that_is_none_of_calors_ends_no_run() -> None:
    class Bare(Odd):
        """Fails to compile exp with an error of Python's own."""

        def compile(self, index: int, graph: Any) -> Any:
            if any(n.op.name == "exp" for n in graph.nodes):
                raise KeyError("exp")
            return super().compile(index, graph)

    results = packing.run(some(*VALUES), place(Bare()))
    assert [r.outcome for r in results] == ["passed", "failed", "passed"]
    assert "KeyError: 'exp'" in results[1].detail


def test_a_budget_leaves_the_rest_as_not_run() -> None:
    results = list(running.run(get_device("numpy"), some(*VALUES), running.Options(budget=-1.0)))
    assert [r.outcome for r in results] == ["not_run"] * 3
    assert all("budget" in r.detail for r in results)


def test_a_run_goes_on_from_its_log(tmp_path: Path) -> None:
    log = running.Options(log=tmp_path / "log.jsonl")
    device = get_device("numpy")
    told: list[Result] = []
    first = list(running.run(device, some(*VALUES[:2]), log, told.append))
    assert len(told) == 2
    # A line that was being written when the run was cut off.
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"name": "values/mul/flo')
    second = list(running.run(device, some(*VALUES), log, told.append))
    assert [r.name for r in told] == list(VALUES)
    assert second[:2] == first


def test_files_of_a_run_are_opened_as_often_for_many_checks_as_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    open_it = Path.open

    def noted(path: Path, *args: Any, **options: Any) -> Any:
        opened.append(path.name)
        return open_it(path, *args, **options)

    monkeypatch.setattr(Path, "open", noted)
    device, counts = get_device("numpy"), []
    for n in (1, 5):
        log, begun = tmp_path / f"{n}.log", tmp_path / f"{n}.begun"
        options = running.Options(pack=1, log=log, begun=begun)
        names = [r.name for r in running.run(device, some(*VALUES[:n]), options)]
        counts.append((opened.count(log.name), opened.count(begun.name)))
        assert [json.loads(line) for line in begun.read_text().splitlines()] == [[m] for m in names]
        assert len(log.read_text().splitlines()) == 1 + len(names)
    assert counts[0] == counts[1]


def test_a_log_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    list(running.run(get_device("numpy"), [], running.Options(log=path)))
    with pytest.raises(FormatError, match="its seed is 0, not 1"):
        list(running.run(get_device("numpy"), [], running.Options(log=path, seed=1)))
    path.write_text("")
    with pytest.raises(FormatError, match="is not the log of a run; remove it"):
        list(running.run(get_device("numpy"), [], running.Options(log=path)))


def test_another_seed_draws_other_numbers() -> None:
    seen: list[Any] = []

    def watch(x: Any) -> Any:
        seen.append(np.array(x))
        return np.exp(x)

    device: Device = device_of(Odd({"exp": watch}), 0)
    for seed in (0, 0, 1):
        outcomes.run(CHECKS["values/exp/float32"], Place(device, device, seed))
    assert (seen[0] == seen[1]).all()
    assert (seen[0] != seen[2]).any()


def choose(**options: Any) -> Selection:
    return selection(known_ops=["add", "exp"], known_kinds=["values"], **options)


WRONG: Sequence[tuple[dict[str, Any], str]] = [
    ({"profile": "royal"}, "no profile 'royal'; choose from complete, array"),
    ({"tiers": ["golden"]}, "no tier 'golden'; choose from basic, full"),
    ({"ops": ["exq"]}, "no op 'exq'; choose from add, exp"),
    ({"kinds": ["value"]}, "no kind 'value'"),
    ({"shard": "3/2"}, "write it as 2/5, the second of five"),
    ({"shard": "a"}, "2/5"),
]


@pytest.mark.parametrize(("options", "said"), WRONG)
def test_unknown_names_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        choose(**options)


def test_shards_are_a_partition() -> None:
    everything = Selection(tiers=("basic",)).of(CHECKS.values())
    parts = [Selection(tiers=("basic",), shard=(n, 3)).of(CHECKS.values()) for n in (1, 2, 3)]
    assert sorted(c.name for p in parts for c in p) == sorted(c.name for c in everything)


def test_selections() -> None:
    chosen = choose(ops=["exp"], dtypes=["float16"]).of(CHECKS.values())
    assert {(c.op, c.dtype) for c in chosen} == {("exp", calor.float16)}
    assert not choose(ops=["exp"]).whole
    assert choose(tiers=["basic"]).whole
    pattern = choose(patterns=["values/add/*"]).of(CHECKS.values())
    assert {c.name.rpartition("/")[0] for c in pattern} == {"values/add"}


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_asks_every_contract_and_only_its_dtypes(name: str) -> None:
    profile = PROFILES[name]
    chosen = Selection(profile=name).of(CHECKS.values())
    assert {d for c in chosen for d in c.dtypes} <= set(profile.dtypes)
    assert {c.kind for c in chosen} >= {"features", "transfers", "memory", "state", "values"}
    asked = {c.op for c in chosen if c.kind == "values"}
    assert set(profile.required) <= asked


def test_states_are_told_by_level() -> None:
    assert State("partial", "up to 4 axes")
