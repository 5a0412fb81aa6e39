"""What a device on another machine costs: `python benchmarks/remote.py --device cpu --json FILE`.

A server of the device runs beside, at 127.0.0.1, so this is what the protocol adds where the
network adds next to nothing. Calls are beside the same calls on the device itself, contents beside
a bare stream of httpx to uvicorn, and an array that goes there and comes back beside ONNX Runtime
behind Starlette, and beside an actor of Ray where it is installed. All sides take turns, and of the
rounds the median is taken; the floor is that of as many bytes over a bare socket.
``bars`` has what is promised, and whether it holds.
"""

import argparse
import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import httpx
import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from harness import report  # noqa: E402
from harness.runner import Row  # noqa: E402

SUITE = "remote"
COUNT = 1000
MIB = 1 << 20
# Batches of images that are on their way together.
BATCHES = 8
# What is promised on a loopback: seconds beyond the same call here, calls in a second, shares of a
# bare stream and of the model here, and bytes that a process grows by a call.
BEYOND, IN_A_ROW, STREAM, LOCAL, GROWTH = 350e-6, 10_000, 0.8, 0.95, 1.0
Sides = Mapping[str, Callable[[], Any]]


def timed(call: Callable[[], Any]) -> float:
    """Return the seconds of a call."""
    start = perf_counter()
    call()
    return perf_counter() - start


def in_turns(sides: Sides, rounds: int, calls: int = 1) -> dict[str, float]:
    """Return the median seconds of a call of each side, which take turns of so many calls."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for call in sides.values():
        call()
    for _ in range(rounds):
        for name, call in sides.items():
            found[name] += [timed(call) for _ in range(calls)]
    return {name: median(times) for name, times in found.items()}


@contextmanager
def process(*command: str) -> Iterator[tuple[int, str]]:
    """Run a server; give its process and the last word of the first line that it prints."""
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout is not None
        try:
            yield made.pid, made.stdout.readline().split()[-1]
        finally:
            made.terminate()


def ping_pong(nbytes: int, rounds: int) -> float:
    """Return the median seconds of so many bytes there and back, over a bare socket."""
    text = (
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\n"
        "print(s.getsockname()[1], flush=True)\nc = s.accept()[0]\n"
        "while d := c.recv(1 << 16): c.sendall(d)\n"
    )
    with process("-c", text) as (_, port), socket.create_connection(("127.0.0.1", int(port))) as c:
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        content = bytes(nbytes)

        def once() -> None:
            c.sendall(content)
            left = nbytes
            while left:
                got = len(c.recv(left))
                assert got, "the other side ended"
                left -= got

        return in_turns({"": once}, rounds, 50)[""]


def bare_stream(nbytes: int, rounds: int) -> float:
    """Return the median seconds in which so many bytes pass a bare socket, into memory in use."""
    text = (
        "import socket, sys\ns = socket.create_server(('127.0.0.1', 0))\n"
        "print(s.getsockname()[1], flush=True)\nc = s.accept()[0]\n"
        "room = memoryview(bytearray(int(sys.argv[1])))\n"
        "while True:\n"
        "    there = 0\n"
        "    while there < len(room):\n"
        "        n = c.recv_into(room[there:])\n"
        "        if not n: sys.exit()\n"
        "        there += n\n"
        "    c.sendall(b'x')\n"
    )
    with (
        process("-c", text, str(nbytes)) as (_, port),
        socket.create_connection(("127.0.0.1", int(port))) as c,
    ):
        content = bytes(nbytes)

        def once() -> None:
            c.sendall(content)
            assert c.recv(1) == b"x", "the other side ended"

        return in_turns({"": once}, rounds, 3)[""]


def resident(pid: int) -> int:
    """Return a process's resident bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Measured:
    """The rows and the bars of a run, printed as they are found."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.rows: list[dict[str, Any]] = []
        self.bars: list[dict[str, Any]] = []

    def rows_of(self, case: str, found: Mapping[str, float], floor: float | None = None) -> None:
        """Add a row for each peer of a case, of which "ours" is calor's time."""
        ours = found["ours"]
        for peer, seconds in found.items():
            if peer == "ours":
                continue
            row = Row(SUITE, case, self.device, peer, ours, seconds, seconds / ours, floor)
            self.rows.append(asdict(row))
            told = f"{report.seconds(ours):>9s}  {report.seconds(seconds):>9s}"
            print(f"{case:42s} {peer:12s} {told}  ratio {row.ratio:.3f}", flush=True)

    def bar(self, name: str, value: float, limit: float, least: bool) -> None:
        """Add a bar: a value that is to be at least, or at most, a limit."""
        met = value >= limit if least else value <= limit
        self.bars.append({"bar": name, "value": value, "limit": limit, "met": met})
        sign = ">=" if least else "<="
        print(f"{'met' if met else 'NOT MET'}: {name}: {value:.4g} {sign} {limit:.4g}", flush=True)


class Calls:
    """One small kernel, called here and there."""

    def __init__(self, device: str) -> None:
        import calor

        self.calor, self.device = calor, calor.device(device)
        x = calor.asarray(np.zeros(COUNT, np.float32), device=self.device)
        self.adds = calor.jit(lambda x: x + 1.0)
        self.adds(x)
        self.bound = self.adds.bind(x)
        self.array = np.zeros(COUNT, np.float32)
        for _ in range(3):
            self.bound()

    def waited(self) -> None:
        """Call, and wait."""
        self.bound()
        self.calor.synchronize(self.device)

    def back(self) -> None:
        """Send an array, call, and fetch the result."""
        made = self.adds(self.calor.asarray(self.array, device=self.device)).numpy()
        assert made[0] == 1.0

    def row(self, count: int) -> None:
        """Call many times, and wait at the end."""
        for _ in range(count):
            self.bound()
        self.calor.synchronize(self.device)


def measure_calls(
    found: Measured, here: Calls, there: Calls, bare: httpx.Client, rounds: int, row: int
) -> None:
    """Measure one small kernel."""
    content = here.array.tobytes()
    times = in_turns({"ours": there.waited, "local": here.waited}, rounds, 50)
    floor = ping_pong(150, rounds)
    found.rows_of("one kernel, waited for", times, floor)
    found.bar("seconds beyond a local call", times["ours"] - times["local"], BEYOND, least=False)
    sides: dict[str, Callable[[], Any]] = {"ours": there.back, "local": here.back}
    sides["httpx"] = lambda: bare.post("/echo", content=content).content
    if bare.post("/add", content=content).status_code == 200:
        sides["onnxruntime"] = lambda: bare.post("/add", content=content).content
    rays = ray_sides(here.array)
    try:
        sides |= {name: calls for name, (calls, _) in rays.items()}
        found.rows_of(f"{len(content)} bytes there and back", in_turns(sides, rounds, 20), floor)
        many: dict[str, Callable[[], Any]] = {"ours": lambda: there.row(row)}
        many["local"] = lambda: here.row(row)
        many |= {name: partial(calls, row) for name, (_, calls) in rays.items()}
        times = {name: s / row for name, s in in_turns(many, max(rounds // 2, 1)).items()}
    finally:
        if rays:
            import_module("ray").shutdown()
    found.rows_of("one kernel, many in a row", times)
    found.bar("calls in a second, many in a row", 1 / times["ours"], IN_A_ROW, least=True)


def ray_sides(array: Any) -> dict[str, tuple[Callable[[], Any], Callable[[int], Any]]]:
    """Return a call of an actor of Ray, and many in a row; nothing where Ray is not installed."""
    if not find_spec("ray"):
        return {}
    ray = import_module("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")

    class Adder:
        def __init__(self) -> None:
            self.x = np.zeros(COUNT, np.float32)

        def add(self, x: Any = None) -> Any:
            if x is None:
                self.y = self.x + 1.0
                return None
            return x + 1.0

    actor = ray.remote(Adder).remote()
    ray.get(actor.add.remote(array))
    return {
        "ray": (
            lambda: ray.get(actor.add.remote(array)),
            lambda count: ray.get([actor.add.remote() for _ in range(count)]),
        )
    }


def measure_contents(
    found: Measured, there: Calls, bare: httpx.Client, nbytes: int, rounds: int
) -> None:
    """Measure large contents, beside a bare stream of as many bytes."""
    calor, device = there.calor, there.device
    given = np.random.default_rng(0).integers(0, 255, nbytes, np.uint8)
    held = calor.asarray(given, device=device)
    size = 4 * MIB
    pieces = [given[place : place + size].tobytes() for place in range(0, nbytes, size)]

    def sent() -> None:
        made = calor.asarray(given, device=device)
        calor.synchronize(device)
        del made

    def fetched() -> None:
        # Core keeps what it fetched of a value; the backend does not.
        made = device.backend.download(device.index, held._value.buffer, held._value.spec)
        assert made.nbytes == nbytes

    def streamed() -> None:
        assert bare.post("/take", content=iter(pieces)).text == str(nbytes)

    def given_back() -> None:
        room, there = np.empty(nbytes, np.uint8), 0
        with bare.stream("GET", f"/give/{nbytes}") as answer:
            for piece in answer.iter_raw():
                room[there : there + len(piece)] = np.frombuffer(piece, np.uint8)
                there += len(piece)
        assert there == nbytes

    name = f"{nbytes // MIB} MiB"
    floor = bare_stream(nbytes, rounds)
    print(f"{name} over a bare socket: {report.seconds(floor)}", flush=True)
    times = in_turns({"ours": sent, "httpx": streamed}, rounds)
    found.rows_of(f"upload of {name}", times, floor)
    found.bar("upload, share of a bare stream", times["httpx"] / times["ours"], STREAM, least=True)
    times = in_turns({"ours": fetched, "httpx": given_back}, rounds)
    found.rows_of(f"download of {name}", times, floor)
    share = times["httpx"] / times["ours"]
    found.bar("download, share of a bare stream", share, STREAM, least=True)


def measure_model(
    found: Measured, here: Calls, there: Calls, size: str, batch: int, rounds: int
) -> None:
    """Measure inference of ResNet-50: images go there, scores come back."""
    from models.base import Calor
    from models.resnet50 import MODEL

    calor = here.calor
    images = MODEL.inputs(MODEL.sizes[size], batch, np.random.default_rng(0))[0]

    def side(calls: Calls) -> Callable[[int], list[Any]]:
        calor.random.seed(0)
        with calor.device(calls.device), calor.no_grad():
            network: Any = MODEL.network(Calor(), MODEL.sizes[size])
            network.eval()
            step = calor.jit(lambda network, x: network(x))

        def infer(count: int) -> list[Any]:
            with calor.device(calls.device), calor.no_grad():
                made = [step(network, calor.asarray(images)) for _ in range(count)]
                return [scores.numpy() for scores in made]

        return infer

    sides = {"ours": side(there), "local": side(here)}
    last = {name: one(1)[-1] for name, one in sides.items()}
    assert np.array_equal(last["ours"], last["local"]), "the scores differ"
    name = f"ResNet-50, {size}, {batch} images"
    times = in_turns({side: partial(one, 1) for side, one in sides.items()}, rounds)
    found.rows_of(name, times)
    # Calls do not wait for each other, so images are sent while others are computed.
    times = in_turns({side: partial(one, BATCHES) for side, one in sides.items()}, rounds)
    each = {side: seconds / BATCHES for side, seconds in times.items()}
    found.rows_of(f"{name}, {BATCHES} in a row", each)
    found.bar("ResNet-50, share of local", each["local"] / each["ours"], LOCAL, least=True)


def slope(samples: Sequence[Sequence[int]], column: int) -> float:
    """Return the median slope between samples (Theil and Sen): a step, taken once, is none."""
    pairs = combinations(samples, 2)
    return median((b[column] - a[column]) / (b[0] - a[0]) for a, b in pairs)


def measure_memory(found: Measured, there: Calls, pid: int, calls: int) -> dict[str, Any]:
    """Return how the memory of both processes grows in so many calls, after as many before."""
    step = max(calls // 20, 1)
    there.row(calls // 4)
    samples: list[list[int]] = []
    for place in range(0, calls + 1, step):
        samples.append([place, resident(os.getpid()), resident(pid)])
        there.row(step)
    slopes = {name: slope(samples, 1 + place) for place, name in enumerate(("client", "server"))}
    for name, grown in slopes.items():
        found.bar(f"bytes by which the {name} grows in a call", grown, GROWTH, least=False)
    return {"calls": calls, "samples": samples, "bytes_per_call": slopes}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--row", type=int, default=5000, help="calls in a row")
    parser.add_argument("--mib", type=int, default=64, help="of contents")
    parser.add_argument("--model", default="full", help="the size of ResNet-50: full, small, tiny")
    parser.add_argument("--batch", type=int, default=32, help="images at a time")
    parser.add_argument("--calls", type=int, default=100_000, help="calls to watch memory in")
    parser.add_argument("--only", default="calls,contents,model,memory", help="parts, with commas")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found, memory = Measured(asked.device), None
    parts = asked.only.split(",")
    serve = ("-m", "calor_http", "serve", "--devices", asked.device, "--no-token", "--port", "0")
    with (
        process(*serve) as (pid, address),
        process(str(HERE / "programs" / "bare_server.py")) as (_, port),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as bare,
    ):
        here, there = Calls(asked.device), Calls(f"{address}/{asked.device}")
        try:
            if "calls" in parts:
                measure_calls(found, here, there, bare, asked.rounds, asked.row)
            if "contents" in parts:
                measure_contents(found, there, bare, asked.mib * MIB, asked.rounds)
            if "model" in parts:
                turns = max(asked.rounds // 2, 1)
                measure_model(found, here, there, asked.model, asked.batch, turns)
            if "memory" in parts:
                memory = measure_memory(found, there, pid, asked.calls)
        finally:
            there.device.backend.close()
    if asked.json:
        command = shlex.join(["python", "benchmarks/remote.py", *sys.argv[1:]])
        about = report.setting(command, asked.device, (), None)
        for package in ("httpx", "starlette", "uvicorn", "onnxruntime", "ray"):
            if find_spec(package):
                about["versions"][package] = getattr(import_module(package), "__version__", "")
        about |= {"suite": SUITE, "rows": found.rows, "bars": found.bars, "memory": memory}
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(about, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
