"""What an all_reduce takes: `python benchmarks/collectives.py --devices 2 --json FILE`.

From 1 KiB to 1 GiB of float32 on each GPU, beside torch.distributed with NCCL, which has a process
for each GPU. Both hold the same GPUs and take turns; a time is that of a row of calls, waited for
at its end, divided by their number, and of the rounds the median is taken. Where the time of the
collective alone is wanted, without calor's call around it, it is beside as ``links_s``.

Leave NCCL_NVLS_ENABLE=0 where NVLink multicast is not allowed; both sides read it.
"""

import argparse
import json
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from harness import report  # noqa: E402
from harness.runner import Row  # noqa: E402

KIB = 1 << 10
SIZES = [KIB << (2 * i) for i in range(11)]  # 1 KiB ... 1 GiB, each four times the one before.
ROUNDS = 7


def calls_for(nbytes: int) -> int:
    """How many calls a round has: enough for a steady queue, and not more than half a second."""
    return max(10, min(200, (8 << 30) // nbytes))


def name_of(nbytes: int) -> str:
    """1 KiB, 4 MiB, 1 GiB."""
    for unit in ("KiB", "MiB", "GiB"):
        nbytes //= KIB
        if nbytes < KIB:
            return f"{nbytes} {unit}"
    return f"{nbytes} TiB"


class Ours:
    """all_reduce of a group, as a bound call, and its collective alone."""

    def __init__(self, devices: list[str]) -> None:
        import calor
        from calor.distributed import all_reduce, group

        self.calor = calor
        self.group = group(devices)
        self.run = calor.jit(all_reduce)

    def prepare(self, count: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """Return what queues one call, and one of the collective alone."""
        from calor.backends.communication import Collective
        from calor.specs import spec

        backend: Any = self.group.device.backend
        members = range(1, self.group.size + 1)
        given = [np.full(count, n, np.float32) for n in members]
        x = self.group.join(given)
        wanted = sum(members)
        assert (self.run(x).numpy() == wanted).all(), "the sum is wrong"
        if self.group.device.fallbacks:
            print("it goes by copies", file=sys.stderr)
        zeros = self.group.join([np.zeros(count, np.float32)] * self.group.size)
        bound = self.run.bind(zeros)
        known = spec((count,), self.calor.float32)
        call = [Collective("all_reduce", known, known, "sum")]
        parts = [zeros._value.buffer.parts]
        exchange = backend.prepare(call)
        return bound, lambda: exchange(parts)

    def seconds(self, call: Callable[[], Any], times: int) -> float:
        """Return the time of a call within a row of them."""
        wait = self.calor.synchronize
        call()
        wait(self.group.device)
        start = perf_counter()
        for _ in range(times):
            call()
        wait(self.group.device)
        return (perf_counter() - start) / times


class Torch:
    """Processes of torch.distributed that take turns with us."""

    def __init__(self, world: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, __file__, "--worker", str(port), str(world)]
        self.workers = [
            subprocess.Popen(
                [*command, str(rank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for rank in range(world)
        ]

    def seconds(self, count: int, times: int) -> float:
        """Return the slowest process's time of a call within a row of them."""
        for worker in self.workers:
            assert worker.stdin is not None
            worker.stdin.write(f"{count} {times}\n")
            worker.stdin.flush()
        found = []
        for worker in self.workers:
            assert worker.stdout is not None
            line = worker.stdout.readline()
            if not line:
                raise RuntimeError("a process of torch ended; see above")
            found.append(float(line))
        return max(found)

    def close(self) -> None:
        """End the processes."""
        for worker in self.workers:
            assert worker.stdin is not None
            worker.stdin.close()
        for worker in self.workers:
            worker.wait(60)


def work(port: int, world: int, rank: int) -> None:
    """What a process of torch does: rows of all_reduce, as it is told."""
    torch, dist = import_module("torch"), import_module("torch.distributed")
    torch.cuda.set_device(rank)
    where = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("nccl", init_method=where, rank=rank, world_size=world)
    for line in sys.stdin:
        count, times = map(int, line.split())
        x = torch.full((count,), float(rank + 1), device="cuda")
        dist.all_reduce(x)
        assert bool((x == world * (world + 1) / 2).all()), "the sum is wrong"
        x.zero_()
        dist.all_reduce(x)
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        start = perf_counter()
        for _ in range(times):
            dist.all_reduce(x)
        torch.cuda.synchronize()
        print((perf_counter() - start) / times, flush=True)
        del x
        torch.cuda.empty_cache()
    dist.destroy_process_group()


def measure(devices: list[str], peer: bool, sizes: list[int]) -> list[dict[str, Any]]:
    """Return a row for each size, printed as it is found."""
    ours, rows = Ours(devices), []
    torch = Torch(len(devices)) if peer else None
    try:
        for nbytes in sizes:
            count, times = nbytes // 4, calls_for(nbytes)
            bound, links = ours.prepare(count)
            found: dict[str, list[float]] = {"ours": [], "links": [], "peer": []}
            for _ in range(ROUNDS):
                found["ours"].append(ours.seconds(bound, times))
                found["links"].append(ours.seconds(links, times))
                if torch is not None:
                    found["peer"].append(torch.seconds(count, times))
            taken = {name: median(times) if times else None for name, times in found.items()}
            ours_s, peer_s = taken["ours"], taken["peer"]
            assert ours_s is not None
            ratio = None if peer_s is None else peer_s / ours_s
            row = Row(
                suite="collectives",
                case=f"all_reduce {name_of(nbytes)}",
                device=f"{len(devices)} x {devices[0].partition(':')[0]}",
                peer=None if torch is None else "torch",
                ours_s=ours_s,
                peer_s=peer_s,
                ratio=ratio,
                floor_s=None,
            )
            rows.append({**asdict(row), "links_s": taken["links"]})
            times_told = "  ".join(
                f"{name} {report.seconds(value)}" for name, value in taken.items()
            )
            print(f"{row.case:20s} {times_told}  ratio {ratio or 0:.3f}", flush=True)
    finally:
        if torch is not None:
            torch.close()
    return rows


def main() -> None:
    """Measure, print, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--kind", default="cuda")
    parser.add_argument("--peer", choices=["torch", "none"], default="torch")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="bytes")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(*options.worker)
        return
    kind = options.kind
    devices = [kind if ":" in kind else f"{kind}:{i}" for i in range(options.devices)]
    sizes = [size for size in SIZES if size <= options.largest]
    rows = measure(devices, options.peer == "torch", sizes)
    ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
    if ratios:
        print(f"geometric mean {geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    if options.json:
        command = shlex.join(["python", "benchmarks/collectives.py", *sys.argv[1:]])
        peers = ["torch"] if options.peer == "torch" else []
        setting = report.setting(command, devices[0], peers, None)
        options.json.write_text(json.dumps({**setting, "rows": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
