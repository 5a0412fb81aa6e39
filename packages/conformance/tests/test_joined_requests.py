"""Checks of requests that a server of models joins find what is planted, and else pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from calor_conformance.checks import joined_requests
from calor_http.model import batching, joining, messages, wire
from calor_http.model.batching import Batcher
from calor_http.model.errors import Refused
from calor_http.model.messages import Reader, Writer
from calor_http.model.repository import Repository
from calor_http.model.service import Service
from calor_http.model.wire import Connection
from reference_failures import failures

Change = Callable[[pytest.MonkeyPatch], None]
PARTS = ("sizes", "connections", "times", "heads", "tokens", "ahead", "messages")
JOINED, WAITING, TOGETHER = (
    "models/requests-joined", "models/requests-waiting", "models/served-together",
)  # fmt: skip


@pytest.mark.parametrize(
    "name", [JOINED, WAITING, TOGETHER, *(f"models/served-{part}" for part in PARTS)]
)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 3) == []


def filled_with_zeros(patch: pytest.MonkeyPatch) -> None:
    def joined(feeds: Any, runs: Any) -> Any:
        rows = sum(len(next(iter(feed.values()))) for feed in feeds)
        more = sum(runs) - rows
        fill = {n: np.zeros((more, *x.shape[1:]), x.dtype) for n, x in feeds[0].items()}
        return right([*feeds, fill] if more else feeds, runs)

    right = batching.joined
    patch.setattr(batching, "joined", joined)


def rows_of_others(patch: pytest.MonkeyPatch) -> None:
    right = Batcher._together

    def together(self: Any, batch: Any) -> Any:
        made = right(self, batch)
        same = len(batch) > 1 and all(
            a.shape == b.shape for a, b in zip(made[0], made[1], strict=True)
        )
        return [made[1], made[0], *made[2:]] if same else made

    patch.setattr(Batcher, "_together", together)


def one_error_for_all(patch: pytest.MonkeyPatch) -> None:
    def run(self: Any, batch: Any) -> Any:
        try:
            return self._together(batch)
        except Exception as error:
            return [self._failure(error) for _ in batch]

    patch.setattr(Batcher, "_run", run)


def joined_whatever_rows_depend_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joining, "_depends", lambda model: "")


def the_first_input_alone_is_drawn(patch: pytest.MonkeyPatch) -> None:
    right = joining.drawn
    patch.setattr(joining, "drawn", lambda ports, *given, **how: right(ports[:1], *given, **how))


def cut_without_the_rest(patch: pytest.MonkeyPatch) -> None:
    right = joining.Joining._cheapest

    def cheapest(self: Any, rows: int) -> Any:
        made = right(self, rows)
        return made[:-1] if len(made) > 1 and made[0] == made[-1] else made

    patch.setattr(joining.Joining, "_cheapest", cheapest)


def answered_twice(patch: pytest.MonkeyPatch) -> None:
    right = Batcher._answer

    def answer(self: Any, batch: Any, results: Any) -> None:
        right(self, batch, results)
        if len(batch) > 2:
            right(self, batch[:1], results[:1])

    patch.setattr(Batcher, "_answer", answer)


def status_of_the_server_for_requests(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(batching, "refused", lambda error: Refused(500, str(error)))


def nothing_written_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Batcher, "_failure", lambda self, error: batching.refused(error))


@pytest.mark.parametrize(
    "change",
    [filled_with_zeros, rows_of_others, one_error_for_all, joined_whatever_rows_depend_on,
     the_first_input_alone_is_drawn,
     cut_without_the_rest, answered_twice, status_of_the_server_for_requests,
     nothing_written_down],
)  # fmt: skip
def test_what_is_wrong_with_joined_requests_is_found(
    change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined_requests, "_PATIENCE", 2.0)
    change(monkeypatch)
    assert failures(JOINED, 3)


def no_limit_of_the_queue(patch: pytest.MonkeyPatch) -> None:
    right = Batcher.__init__
    patch.setattr(
        Batcher, "__init__", lambda s, m, most, delay, queue: right(s, m, most, delay, 99)
    )


def never_run_later(patch: pytest.MonkeyPatch) -> None:
    right = Batcher._flush

    def flush(self: Any) -> None:
        self._delay = max(self._delay, 100.0)
        right(self)

    patch.setattr(Batcher, "_flush", flush)


def nobody_told_of_the_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Batcher, "close", lambda self: self._worker.shutdown(wait=False))


def run_for_nobody(patch: pytest.MonkeyPatch) -> None:
    right = Batcher._taken

    def taken(self: Any) -> Any:
        for job in self._jobs:
            job.sender = type("Sender", (), {"alive": True})
        return right(self)

    patch.setattr(Batcher, "_taken", taken)


def waits_while_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Batcher, "_waits", lambda self: self._delay > 0)


@pytest.mark.parametrize(
    "change",
    [no_limit_of_the_queue, never_run_later, nobody_told_of_the_end, run_for_nobody,
     waits_while_alone],
)  # fmt: skip
def test_what_is_wrong_with_waiting_requests_is_found(
    change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined_requests, "_PATIENCE", 2.0)
    change(monkeypatch)
    assert failures(WAITING, 1)


def heads_kept_without_ids(patch: pytest.MonkeyPatch) -> None:
    right = Writer._message

    def message(self: Any, asked: Any, results: Any) -> Any:
        said = right(self, asked, results)
        return {**said, "id": vars(self).setdefault("first", said.get("id"))}

    patch.setattr(Writer, "_message", message)


def sizes_of_the_first_request(patch: pytest.MonkeyPatch) -> None:
    right = Reader.read

    def read(self: Any, body: bytes, length: int | None) -> Any:
        asked, feed = right(self, body, length)
        first = vars(self).setdefault("first", {n: x.shape[1:] for n, x in feed.items()})
        kept = {n: x.reshape(len(x), -1)[:, : max(first[n], default=1)].reshape(len(x), *first[n])
                if x.ndim > 1 and x.shape[1] >= first[n][0] else x
                for n, x in feed.items()}  # fmt: skip
        return asked, kept

    patch.setattr(Reader, "read", read)


def infinities_in_json(patch: pytest.MonkeyPatch) -> None:
    all_finite = {**vars(np), "isfinite": lambda array: np.ones(1, bool)}
    patch.setattr(messages, "np", SimpleNamespace(**all_finite))


def the_first_model_for_all(patch: pytest.MonkeyPatch) -> None:
    right = Repository.find

    def find(self: Any, name: str, version: Any) -> Any:
        entry = right(self, name, version)
        return self.entries[0] if name.startswith("drawn") else entry

    patch.setattr(Repository, "find", find)


def another_status(patch: pytest.MonkeyPatch) -> None:
    right = Service.refuse
    patch.setattr(
        Service, "refuse", lambda s, error, connection: right(s, Refused(500, "no"), connection)
    )


@pytest.mark.parametrize(
    "change",
    [heads_kept_without_ids, sizes_of_the_first_request, infinities_in_json,
     the_first_model_for_all, another_status, joined_whatever_rows_depend_on],
)  # fmt: skip
@pytest.mark.skipif(find_spec("calor_onnx") is None, reason="calor-onnx is not installed")
def test_what_is_wrong_with_a_server_of_several_clients_is_found(
    change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(monkeypatch)
    assert failures(TOGETHER, 6)


def held_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Connection, "_free", lambda self: None)


def any_number_of_connections(patch: pytest.MonkeyPatch) -> None:
    right = Connection.connection_made

    def connection_made(self: Any, transport: Any) -> None:
        self._limits = replace(self._limits, connections=999)
        right(self, transport)

    patch.setattr(Connection, "connection_made", connection_made)


def ended_while_it_arrives(patch: pytest.MonkeyPatch) -> None:
    right = Connection.look
    patch.setattr(Connection, "look", lambda self, now: right(self, now + 20))


def bodies_in_chunks(patch: pytest.MonkeyPatch) -> None:
    right = wire._read
    patch.setattr(wire, "_read", lambda head: right(head.replace(b"Transfer-Enc", b"X-Enc")))


def ids_of_any_length(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(messages, "_LONGEST_ID", 1 << 20)


def no_token_is_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("calor_http.model.service.hmac.compare_digest", lambda a, b: bool(a))


def the_end_before_the_last_answer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Connection, "shutdown", lambda self: self._transport.close())


@pytest.mark.parametrize(
    ("change", "part"),
    [(held_for_ever, "sizes"), (any_number_of_connections, "connections"),
     (ended_while_it_arrives, "times"), (bodies_in_chunks, "heads"),
     (ids_of_any_length, "messages"), (no_token_is_asked, "tokens"),
     (the_end_before_the_last_answer, "ahead")],
)  # fmt: skip
def test_what_is_wrong_with_the_limits_of_a_server_is_found(
    change: Change, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(monkeypatch)
    assert failures(f"models/served-{part}", 1)
