"""Requests are joined where that changes nothing, and each has its own fate."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from calor.errors import OutOfMemoryError
from calor_http.model.batching import Batcher, Job
from calor_http.model.errors import Refused
from calor_http.model.joining import Joining, joined, warmed
from calor_http.model.local import LocalModels
from calor_http.model.messages import Writer
from calor_http.model.programs import Array, Port
from served_model_files import CENTRED, DOUBLE, FIXED, PICKED, SUMMED, TWO, write

F32, I64 = np.dtype(np.float32), np.dtype(np.int64)


class Doubling:
    """A model that notes what it was run with, waits where told to, and fails for -1."""

    platform = "test"

    def __init__(self) -> None:
        self.inputs = (Port("x", F32, "FP32", ("N", "T")),)
        self.outputs = (Port("y", F32, "FP32", ("N", "T")),)
        self.rows: list[int] = []
        self.may_run = threading.Event()
        self.may_run.set()

    def run(self, feed: Mapping[str, Array]) -> Sequence[Array]:
        self.may_run.wait()
        x = feed["x"]
        self.rows.append(len(x))
        if (x == -1).any():
            raise OutOfMemoryError("no memory")
        return [x * 2]


def asked(
    requests: Sequence[Array],
    model: Doubling | None = None,
    *,
    seconds: Mapping[int, float] | None = None,
    queue: int = 100,
    delay: float = 0.0,
    alive: Sequence[bool] = (),
) -> tuple[list[Any], Doubling]:
    """Return what each of several requests gets that arrive at once."""
    model = model or Doubling()
    found: list[Any] = [None] * len(requests)
    model.may_run.clear()

    async def work() -> None:
        batcher = Batcher(model, 8, delay, queue)
        batcher.joining = Joining(seconds or {1: 1.0, 2: 1.1, 4: 1.2, 8: 1.3})
        ends = [asyncio.Event() for _ in requests]

        def job(place: int) -> Job:
            def done(results: Sequence[Array] | None, error: Refused | None) -> None:
                found[place] = error if results is None else results[0]
                ends[place].set()

            here = not alive or alive[place]
            return Job({"x": requests[place]}, done, SimpleNamespace(alive=here))

        for place in range(len(requests)):
            if place == 1:
                # The first one begins; the others are there when it is done.
                await asyncio.sleep(0.01)
            try:
                batcher.submit(job(place))
            except Refused as error:
                found[place] = error
                ends[place].set()
        model.may_run.set()
        for end in ends:
            await asyncio.wait_for(end.wait(), 10)
        batcher.close()

    asyncio.run(work())
    return found, model


def row(number: float, count: int = 1, width: int = 2) -> Array:
    return np.full((count, width), number, np.float32)


def test_requests_that_arrive_together_run_together() -> None:
    found, model = asked([row(n, 1 + n % 2) for n in range(5)])
    assert model.rows == [1, 8]
    for n, made in enumerate(found):
        np.testing.assert_array_equal(made, row(2 * n, 1 + n % 2))


def test_those_of_other_shapes_run_apart() -> None:
    requests = [row(1), row(2, width=3), row(3), row(4, width=3)]
    found, model = asked(requests)
    assert model.rows == [1, 2, 1]
    for request, made in zip(requests, found, strict=True):
        np.testing.assert_array_equal(made, 2 * request)


def test_a_request_that_fails_fails_alone() -> None:
    found, model = asked([row(1), row(-1), row(3)])
    assert isinstance(found[1], Refused)
    assert found[1].status == 503
    np.testing.assert_array_equal(found[0], row(2))
    np.testing.assert_array_equal(found[2], row(6))
    assert model.rows == [1, 2, 1, 1]


def test_one_with_many_rows_is_computed_in_parts() -> None:
    (made,), model = asked([np.arange(42, dtype=np.float32).reshape(21, 2)])
    np.testing.assert_array_equal(made.ravel(), 2 * np.arange(42))
    assert model.rows == [8, 8, 8]
    assert sum(Joining({1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}).runs(21)) == 21


def test_a_model_that_joins_nothing_gets_each_request_as_it_is() -> None:
    model = Doubling()
    found, _ = asked([row(1), row(2, 3), row(3)], model, seconds={0: 0.0})
    assert model.rows == [1, 3, 1]
    np.testing.assert_array_equal(found[1], row(4, 3))


def test_too_many_that_wait_are_refused() -> None:
    found, _ = asked([row(n) for n in range(5)], queue=3)
    assert [isinstance(made, Refused) and made.status for made in found[4:]] == [429]
    np.testing.assert_array_equal(found[2], row(4))


def test_nothing_is_computed_for_who_is_gone() -> None:
    found, model = asked([row(1), row(2), row(3)], alive=[True, False, True])
    assert isinstance(found[1], Refused)
    assert model.rows == [1, 1]
    np.testing.assert_array_equal(found[2], row(6))


def test_who_is_alone_does_not_wait() -> None:
    # Ten minutes of waiting would end the test.
    found, _ = asked([row(1)], delay=600.0)
    np.testing.assert_array_equal(found[0], row(2))


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 8, 9, 31])
def test_runs_cover_all_rows_at_the_least_cost(rows: int) -> None:
    for seconds in ({1: 1.0, 2: 1.2, 4: 1.5, 8: 2.0}, {1: 1.0, 2: 2.0, 3: 3.0}, {1: 1.0}):
        joining = Joining(seconds)
        runs = joining.runs(rows)
        assert sum(runs) >= rows
        assert sum(runs) - runs[-1] < rows
        assert set(runs) <= set(seconds)
        assert sum(seconds[n] for n in runs) <= rows * seconds[1] + 1e-9
        feeds = joined([{"x": row(1, rows)}], runs)
        assert [len(feed["x"]) for feed in feeds] == list(runs)


@pytest.mark.parametrize(
    ("text", "most", "reason"),
    [
        (CENTRED, 0, "depends on the rows beside it"),
        (SUMMED, 0, "fixed first axis"),
        (FIXED, 0, "fixed first axis"),
        (DOUBLE, 1, ""),
        (PICKED, 1, ""),
        (TWO, 1, ""),
    ],
)
def test_rows_are_joined_where_they_are_independent(
    tmp_path: Path, text: str, most: int, reason: str
) -> None:
    (path,) = write(tmp_path, model=text)
    with LocalModels(path, device="numpy", max_batch=4) as server:
        joining = server.service.repository.entries[0].batcher.joining
    assert reason in joining.reason
    assert bool(joining.reason) == bool(reason)
    assert joining.most >= most


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int64, np.uint16])
@pytest.mark.parametrize("sizes", [(), (1,), (3, 3)])
@pytest.mark.parametrize(
    "across",
    [lambda x: x[::-1], lambda x: np.sort(x, 0), lambda x: np.roll(x, 1, 0),
     lambda x: x | x.max(), lambda x: x ^ x[0], lambda x: np.maximum.accumulate(x)],
)  # fmt: skip
def test_rows_of_few_numbers_that_depend_on_others_are_not_joined(
    dtype: Any, sizes: tuple[int, ...], across: Any
) -> None:
    class Across:
        platform = "test"
        inputs = outputs = (Port("x", np.dtype(dtype), "", ("N", *sizes)),)

        def run(self, feed: Mapping[str, Array]) -> Sequence[Array]:
            return [across(feed["x"])]

    assert "depends" in warmed(Across(), 8).reason


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, OutOfMemoryError, KeyError])
def test_a_model_that_fails_for_random_inputs_is_served_row_by_row(kind: type[Exception]) -> None:
    class Failing(Doubling):
        def run(self, feed: Mapping[str, Array]) -> Sequence[Array]:
            raise kind("not these")

    assert "not these" in warmed(Failing(), 8).reason


def test_many_clients_get_their_own_answers(tmp_path: Path) -> None:
    (path,) = write(tmp_path, double=DOUBLE, picked=PICKED)[:1]
    picked = tmp_path / "picked.onnx"
    with LocalModels(path, picked, device="numpy", max_batch=8) as server:

        def work(client_number: int) -> None:
            rng = np.random.default_rng(client_number)
            with httpx.Client(base_url=server.address) as client:
                for _ in range(15):
                    x = rng.integers(-99, 99, (int(rng.integers(1, 5)), 3))
                    told = {"name": "x", "datatype": "FP32", "shape": list(x.shape)}
                    message = {"inputs": [{**told, "data": x.ravel().tolist()}]}
                    answer = client.post("/v2/models/double/infer", json=message)
                    assert answer.json()["outputs"][0]["data"] == (2 * x).ravel().tolist()
                    # Some of these fail, and those beside them do not.
                    index = int(rng.integers(0, 6))
                    told = {"name": "i", "datatype": "INT64", "shape": [1], "data": [index]}
                    answer = client.post("/v2/models/picked/infer", json={"inputs": [told]})
                    assert answer.status_code == (200 if index < 4 else 400), answer.text
                    if index < 4:
                        assert answer.json()["outputs"][0]["data"] == [index + 1.0]

        with ThreadPoolExecutor(6) as pool:
            for done in [pool.submit(work, n) for n in range(6)]:
                done.result()


def test_an_answer_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_nothing(self: Writer, asked: Any, results: Any) -> Any:
        raise RuntimeError("not written")

    monkeypatch.setattr(Writer, "write", write_nothing)
    (path,) = write(tmp_path, double=DOUBLE)
    given = {"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}
    with LocalModels(path, device="numpy") as server:
        address = f"{server.address}/v2/models/double/infer"
        answer = httpx.post(address, json={"inputs": [given]}, timeout=10)
    assert (answer.status_code, list(answer.json())) == (500, ["error"])
