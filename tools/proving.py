"""What the conformance suite asks of which device, and how its answer is judged: for nox."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import nox

# What the conformance suite asks of the devices that run here. Where kernels are compiled for the
# checks, that is a sample: on the CPU the basic tier, which has every op, and one check of fifty;
# drivers of OpenCL and Vulkan take a fraction of a second for one, so OpenCL is asked one of two
# hundred, half of PoCL and half of Intel's runtime, and Vulkan one of three hundred. The C++
# compiler that stands for Metal's and HIP's is asked one of two hundred; HIP has waves of 64 units,
# and of 32. The interpreter is slow, and asked least.
# The reference is asked the basic tier and every third check; `conformance_full` asks it all.
# strict checks, besides, that core keeps to the protocol; some of the checks go every way. A
# group of devices is a device too, and so are a router and what a server lends. The longest runs
# are first, and none is last to end alone.
EVERYTHING: Sequence[str] = ()
# Before the name of a device that a server of this machine lends to the suite.
SERVED = "served:"
DEVICES: dict[str, Sequence[Sequence[str]]] = {
    "opencl": (("--shard", "7/400"),),
    "numpy": (("--shard", "1/3"), ("--tier", "basic")),
    "cpu": (("--shard", "7/50"), ("--tier", "basic")),
    "wgpu": (("--shard", "7/300"),),
    "interpreter:1": (("--shard", "207/800"),),
    "interpreter": (("--shard", "7/800"),),
    "hip-shim": (("--shard", "7/400"),),
    "hip-shim:1": (("--shard", "207/400"),),
    "metal-shim": (("--shard", "7/200"),),
    "strict:numpy": (("--shard", "3/24"),),
    f"{SERVED}numpy": (("--shard", "7/60"),),
    "router:cpu,numpy": (("--shard", "7/200"),),
    "group:numpy,numpy": (("--tier", "basic"), ("--shard", "3/24")),
}
# Older processors of x86-64, which this one can be: AVX2, and SSE2 alone.
OLDER = {"x86-64-v3": "1/6", "x86-64": "2/6"}
# Intel's runtime has what PoCL lacks: it computes with float16, and has subgroups that shuffle.
INTEL = (("--shard", "207/400"), ("--dtype", "float16", "--shard", "3/40"))
CONFORMANCE = ("-m", "calor_conformance")
ABSENT = {
    "opencl": "no OpenCL driver; apt-get install pocl-opencl-icd makes the processor a device",
    "wgpu": "no Vulkan driver; apt-get install mesa-vulkan-drivers makes the processor a device",
    "hip-shim": "no C++ compiler for Linux; apt-get install g++ brings one",
    "metal-shim": "no C++ compiler for Linux; apt-get install g++ brings one",
}


@dataclass(frozen=True)
class Asked:
    """One run of the suite: a device, the checks, and what the environment says besides."""

    device: str
    options: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


def sampled(devices: Collection[str]) -> list[Asked]:
    """Return the runs of every change on these devices."""
    found = [Asked(device, options) for device in devices for options in DEVICES[device]]
    if "cpu" in devices and platform.machine().lower() in ("x86_64", "amd64"):
        for target, shard in OLDER.items():
            options = ("--tier", "basic", "--shard", shard)
            found.append(Asked("cpu", options, {"CALOR_CPU_TARGET": target}))
    return found


def present(session: nox.Session, python: str, devices: Collection[str]) -> list[str]:
    """Return the devices that this machine has, and warn of each that is left out."""
    ask = "import sys; from calor.plugins.discovery import registry as r; "
    ask += "print(r.backend(sys.argv[1]).enumerate())"

    def count(name: str) -> int:
        told = session.run(python, "-c", ask, name, silent=True, log=False, external=True)
        return int(str(told))

    names = list(dict.fromkeys(map(base_name, devices)))
    # One process for each backend: two drivers may bring one library in two versions.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = dict(zip(names, pool.map(count, names), strict=True))
    for name in names:
        if not counts[name]:
            why = ABSENT.get(name, "the machine has no such device")
            session.warn(f"{name} IS LEFT OUT: {why}")
    return [device for device in devices if counts[base_name(device)]]


def base_name(device: str) -> str:
    """Return the name of the backend that a device, or the first of a group, is of."""
    name = device
    for before in ("group:", "router:", "strict:", SERVED):
        name = name.removeprefix(before)
    return name.partition(",")[0].partition(":")[0]


def prove(session: nox.Session, python: str, asked: Sequence[Asked]) -> None:
    """Ask the suite, of as many devices at a time as there are processors, and judge the answers.

    The whole is judged by its verdicts, a shard by what failed in it.
    """
    if not asked:
        return
    jobs = max(1, (os.cpu_count() or 1) // len(asked))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        paths = list(pool.map(lambda one: _report(session, python, one, jobs), asked))
    session.run(python, *CONFORMANCE, "verify", *map(str, paths), external=True)
    found = ((one.device, _why(one, path)) for one, path in zip(asked, paths, strict=True))
    bad = [
        f"{device}: {len(why)} reasons, such as {'; '.join(why[:5])}"
        for device, why in found
        if why
    ]
    if bad:
        session.error("not all pass:\n" + "\n".join(bad))


def _report(session: nox.Session, python: str, one: Asked, jobs: int) -> Path:
    """Return the file with the report of one run, whose text is printed when it has ended."""
    name = "-".join([one.device, *one.options, *one.env.values()])
    path = Path(session.create_tmp()).resolve() / f"{re.sub('[:,/]', '-', name)}.json"
    path.unlink(missing_ok=True)
    with lent(python, one.device, session.env) as device:
        suite = ["--device", device, "--jobs", str(jobs), "--json", str(path), *one.options]
        told = session.run(
            python,
            *CONFORMANCE,
            *suite,
            env=dict(one.env),
            success_codes=[0, 1],
            silent=True,
            log=False,
            external=True,
        )
    session.log(f"{name} ended:\n{told}")
    return path


@contextmanager
def lent(python: str, device: str, env: Mapping[str, str | None]) -> Iterator[str]:
    """Give the name by which the suite opens a device, while a server lends it if that is asked."""
    if not device.startswith(SERVED):
        yield device
        return
    name = device.removeprefix(SERVED)
    command = [python, "-m", "calor_http", "serve", "--devices", name, "--no-token", "--port", "0"]
    known = {**os.environ, **{key: value for key, value in env.items() if value is not None}}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=known) as server:
        assert server.stdout is not None
        try:
            address = server.stdout.readline().split()
            if not address:
                raise RuntimeError(f"no server lends {name}; its messages are above")
            yield f"{address[-1]}/{name}"
        finally:
            server.terminate()


def _why(one: Asked, path: Path) -> list[str]:
    report = json.loads(path.read_text("utf-8"))
    if "--shard" in one.options:
        return [row["name"] for row in report["results"] if row["outcome"] == "failed"]
    return [f"{tier}: {text}" for tier, found in report["tiers"].items() for text in found["why"]]
