"""Whose work a device does next: counts and orders, of costs that the tests set."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import calor
from calor.errors import DeviceError
from calor.graph.file import save
from calor_http.described import digest_of
from calor_http.server import queueing
from calor_http.server.limits import Limits
from calor_http.server.local import LocalServer
from calor_http.server.queueing import FairQueue, Turn, Turns
from calor_http.server.quotas import Account, Quota
from calor_http.server.session import Session
from calor_http.server.tokens import Entry, Keyring, hash_of
from raw_http_client import Client
from waiting import wait_until

TOKENS = {"flood": "the-token-that-floods", "light": "the-token-that-asks-little"}
GRAPH = save(calor.trace(lambda x: calor.tanh(x) + x, calor.ones(4)))


def ring(**quotas: Quota) -> Keyring:
    entries = [Entry(n, (hash_of(t),), quotas.get(n, Quota())) for n, t in TOKENS.items()]
    return Keyring(entries)


def order(queue: FairQueue, wanted: list[tuple[Account, float]]) -> list[str]:
    """Let turns wait in an order, each of a cost; return the order in which they are served."""
    served: list[str] = []
    first = Account("first")
    queue.enter(first)
    threads = []
    for account, seconds in wanted:
        before = sum(queue.waiting().values())

        def work(account: Account = account, seconds: float = seconds) -> None:
            queue.enter(account)
            served.append(account.name)
            queue.leave(seconds)

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        wait_until(lambda before=before: sum(queue.waiting().values()) == before + 1)
    queue.leave(0.0)
    for thread in threads:
        thread.join()
    return served


def test_who_asks_little_does_not_wait_for_who_asks_much() -> None:
    flood, light = Account("flood"), Account("light")
    served = order(FairQueue(), [(flood, 1.0)] * 30 + [(light, 1.0)] * 3)
    assert served[:6].count("light") == 3
    assert served[6:] == ["flood"] * 27


def test_costs_decide_and_not_counts() -> None:
    heavy, light = Account("heavy"), Account("light")
    served = order(FairQueue(), [(heavy, 10.0)] * 5 + [(light, 1.0)] * 30)
    # Of ten seconds of one there are ten turns of the other.
    assert [served[:n].count("heavy") for n in (11, 22, 33)] == [1, 2, 3]


def test_weights_are_shares() -> None:
    half, whole = Account("half"), Account("whole", Quota(weight=3.0))
    served = order(FairQueue(), [(half, 1.0)] * 12 + [(whole, 1.0)] * 12)
    assert 11 <= served[:16].count("whole") <= 12


def test_nobody_saves_time_up_and_many_are_served_alike() -> None:
    queue = FairQueue()
    early, late = Account("early"), Account("late")
    assert order(queue, [(early, 50.0)] * 3) == ["early"] * 3
    served = order(queue, [(early, 1.0)] * 10 + [(late, 1.0)] * 10)
    assert served[:10].count("late") <= 6
    accounts = [Account(str(n)) for n in range(5)]
    served = order(FairQueue(), [(account, 1.0) for account in accounts for _ in range(4)])
    for start in range(0, 20, 5):
        assert sorted(served[start : start + 5]) == list("01234")


def test_a_queue_is_free_after_everybody_left() -> None:
    queue = FairQueue()
    account = Account("one")
    for _ in range(3):
        queue.enter(account)
        assert not queue.crowded
        queue.leave(0.5)
    assert queue.turns == {"one": 3}
    assert queue.seconds == 1.5


class Device:
    """A device of which only its name matters."""


def test_a_turn_holds_one_device_and_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueing, "SLICE", 0.0)
    turns, mine, other = Turns(), Account("mine"), Account("other")
    settled: list[Any] = []
    device = Device()
    turn = Turn(turns, mine, settled.append)
    turn.on(device)
    turn.on(device)
    assert turns.taken() == {"mine": 1}
    turn.on(None)
    assert turns.queue(device).waiting() == {}
    turn.on(device)
    order_of: list[str] = []

    def work() -> None:
        second = Turn(turns, other, settled.append)
        second.on(device)
        order_of.append("other")
        second.end()

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: turns.waiting()["other"] == 1)
    # Somebody waits, so between two commands it is the other's turn.
    turn.on(device)
    order_of.append("mine")
    turn.end()
    thread.join()
    assert order_of == ["other", "mine"]
    assert device in settled
    assert mine.device_seconds > 0
    turn.end()


def test_what_a_session_left_to_do_is_its_own() -> None:
    turns, mine, other = Turns(), Account("mine"), Account("other")
    settled: list[str] = []
    device = Device()

    def my_settling(device: Any) -> None:
        settled.append("mine")

    first = Turn(turns, mine, my_settling)
    first.on(device)
    first.end()
    assert settled == []
    again = Turn(turns, mine, my_settling)
    again.on(device)
    again.end()
    assert settled == []
    second = Turn(turns, other, lambda device: settled.append("other"))
    second.on(device)
    assert settled == ["mine"]
    second.end()


def test_a_session_alone_waits_for_no_device_between_its_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with LocalServer("numpy", keyring=ring(light=Quota(device_seconds=1000.0))) as server:
        flood, light = Client(server, TOKENS["flood"]), Client(server, TOKENS["light"])
        (device,) = server.server._devices
        waits: list[int] = []
        monkeypatch.setattr(device.backend, "synchronize", waits.append)
        for number in range(1, 6):
            flood.ask(["up", number, 0, "int8", [1], b"1"])
        assert waits == []
        # Where device time is counted, the device is waited for; before, for the other's work.
        light.ask(["up", 1, 0, "int8", [1], b"1"])
        assert waits == [0, 0]
        flood.ask(["up", 9, 0, "int8", [1], b"1"])
        assert waits == [0, 0]
        flood.close()
        light.close()


def test_an_error_that_is_found_late_is_told_to_whose_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with LocalServer("numpy", keyring=ring()) as server:
        flood, light = Client(server, TOKENS["flood"]), Client(server, TOKENS["light"])
        up = ["up", 1, 0, "int8", [1], b"1"]
        flood.ask(up)
        (device,) = server.server._devices
        failing = [DeviceError("the work of flood failed")]

        def synchronize(index: int) -> None:
            if failing:
                raise failing.pop()

        monkeypatch.setattr(device.backend, "synchronize", synchronize)
        assert light.kinds(up, ["sync", 0], ["read", 1, 0, 2]) == [None] * 3
        assert flood.kinds(["read", 1, 0, 2], ["sync", 0], ["sync", 0]) == [
            None, "DeviceError", None,
        ]  # fmt: skip
        flood.close()
        light.close()


def test_an_error_that_is_found_late_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device tells who waits, and who reads what failed; a client hears one of both."""
    with LocalServer("numpy", keyring=ring()) as server:
        flood, light = Client(server, TOKENS["flood"]), Client(server, TOKENS["light"])
        up = ["up", 1, 0, "int8", [1], b"1"]
        flood.ask(up)
        (device,) = server.server._devices
        failing = [DeviceError("index 9 is out of range")]

        def synchronize(index: int) -> None:
            if failing:
                raise failing.pop()

        def download(*asked: Any) -> Any:
            raise DeviceError("index 9 is out of range")

        monkeypatch.setattr(device.backend, "synchronize", synchronize)
        assert light.kinds(up, ["sync", 0]) == [None] * 2
        with monkeypatch.context() as reading:
            reading.setattr(device.backend, "download", download)
            assert flood.kinds(["read", 1, 0, 2]) == ["DeviceError"]
        assert flood.kinds(["sync", 0]) == [None]
        flood.close()
        light.close()


def test_a_flood_starves_nobody_over_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six sessions of one token send long requests; the other is served between their commands."""
    monkeypatch.setattr(queueing, "SLICE", 0.0)
    ran: list[str] = []
    # How much of the flood ran while the other waited for the device.
    between: list[int] = []
    answer_of, enter = Session._answer_of, FairQueue.enter

    def entered(self: FairQueue, account: Account) -> None:
        before = ran.count("flood")
        enter(self, account)
        if account.name == "light":
            between.append(ran.count("flood") - before)

    def noted(self: Session, command: Any, turn: Any) -> Any:
        made = answer_of(self, command, turn)
        if command[0] == "run":
            ran.append(self.account.name)
        return made

    monkeypatch.setattr(Session, "_answer_of", noted)
    monkeypatch.setattr(FairQueue, "enter", entered)
    prepared = [
        ["up", 1, 0, "float32", [4], bytes(16)],
        ["graph", digest_of(GRAPH), GRAPH],
        ["compile", 1, 0, digest_of(GRAPH)],
    ]
    each, requests = 60, 5
    with LocalServer("numpy", keyring=ring(), limits=Limits(requests=32)) as server:
        floods = [Client(server, TOKENS["flood"]) for _ in range(6)]
        light = Client(server, TOKENS["light"])
        for client in (*floods, light):
            client.ask(*prepared)
        stop = threading.Event()

        def flood(client: Client) -> None:
            while not stop.is_set():
                outputs = range(100, 100 + each)
                runs = [["run", 1, [1], [n], []] for n in outputs]
                client.ask(*runs, ["drop", list(outputs)])

        threads = [threading.Thread(target=flood, args=(client,)) for client in floods]
        for thread in threads:
            thread.start()
        wait_until(lambda: ran.count("flood") > 3 * each)
        between.clear()
        for number in range(requests):
            light.ask(["run", 1, [1], [200 + number], []])
        stop.set()
        for thread in threads:
            thread.join()
        # Without turns it would wait for whole requests of six sessions, 60 commands each.
        assert len(between) == requests
        assert max(between) <= 3
        assert ran.count("light") == requests
        for client in (*floods, light):
            client.close()


def test_more_than_may_wait_is_refused_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = threading.Event()
    answer_of = Session._answer_of

    def held(self: Session, command: Any, turn: Any) -> Any:
        if self.account.name == "flood":
            gate.wait(30)
        return answer_of(self, command, turn)

    monkeypatch.setattr(Session, "_answer_of", held)
    with LocalServer("numpy", keyring=ring(flood=Quota(pending=3))) as server:
        floods = [Client(server, TOKENS["flood"]) for _ in range(6)]
        light = Client(server, TOKENS["light"])
        statuses: list[int] = []

        def ask(client: Client) -> None:
            answer = client.post(["memory", 0])
            statuses.append(answer.status_code)
            assert answer.status_code == 200 or answer.headers["retry-after"] == "1"

        threads = [threading.Thread(target=ask, args=(client,)) for client in floods]
        for thread in threads:
            thread.start()
        # What is refused is answered at once, while three are held.
        wait_until(lambda: statuses == [429] * 3)
        assert light.ask(["memory", 0]) == [[0, 0]]
        gate.set()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200] * 3 + [429] * 3
        for client in (*floods, light):
            client.close()
