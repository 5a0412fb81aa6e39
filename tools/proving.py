"""What the conformance suite asks of which device, and how its answer is judged: for nox."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

import nox

# What the conformance suite asks of the devices that run here. Where kernels are compiled for the
# checks, that is a sample: on the CPU the basic tier, which has every op, and one check of forty;
# drivers of OpenCL and Vulkan take a fraction of a second for one, so they are asked one of two
# hundred, and so is the C++ compiler that stands for Metal's and HIP's; HIP has waves of 64 units,
# and of 32. The interpreter is slow, and asked least.
# strict checks, besides, that core keeps to the protocol; a tenth of the checks go every way. A
# group of devices is a device too.
EVERYTHING: Sequence[str] = ()
SAMPLE = (("--tier", "basic"), ("--shard", "7/40"))
DEVICES: dict[str, Sequence[Sequence[str]]] = {
    "numpy": (EVERYTHING,),
    "strict:numpy": (("--shard", "3/10"),),
    "group:numpy,numpy": (("--tier", "basic"), ("--shard", "3/20")),
    "cpu": SAMPLE,
    "opencl": (("--shard", "7/200"),),
    "wgpu": (("--shard", "7/200"),),
    "interpreter": (("--shard", "7/800"),),
    "interpreter:1": (("--shard", "207/800"),),
    "hip-shim": (("--shard", "7/400"),),
    "hip-shim:1": (("--shard", "207/400"),),
    "metal-shim": (("--shard", "7/200"),),
}
# Older processors of x86-64, which this one can be: AVX2, and SSE2 alone.
OLDER = {"x86-64-v3": "1/6", "x86-64": "2/6"}
# Intel's runtime has what PoCL lacks: it computes with float16, and has subgroups that shuffle.
INTEL = (("--shard", "7/200"), ("--dtype", "float16", "--shard", "3/40"))
CONFORMANCE = ("-m", "calor_conformance")
ABSENT = {
    "opencl": "no OpenCL driver; apt-get install pocl-opencl-icd makes the processor a device",
    "wgpu": "no Vulkan driver; apt-get install mesa-vulkan-drivers makes the processor a device",
    "hip-shim": "no C++ compiler for Linux; apt-get install g++ brings one",
    "metal-shim": "no C++ compiler for Linux; apt-get install g++ brings one",
}


def present(session: nox.Session, python: str, devices: Collection[str]) -> list[str]:
    """Return the devices that this machine has, and warn of each that is left out."""
    ask = "import sys; from calor.plugins.discovery import registry as r; "
    ask += "print(r.backend(sys.argv[1]).enumerate())"
    counts: dict[str, int] = {}
    # One process for each backend: two drivers may bring one library in two versions.
    for name in dict.fromkeys(map(base_name, devices)):
        told = session.run(python, "-c", ask, name, silent=True, log=False, external=True)
        counts[name] = int(str(told))
        if not counts[name]:
            why = ABSENT.get(name, "the machine has no such device")
            session.warn(f"{name} IS LEFT OUT: {why}")
    return [device for device in devices if counts[base_name(device)]]


def base_name(device: str) -> str:
    """Return the name of the backend that a device, or the first of a group, is of."""
    name = device.removeprefix("group:").removeprefix("strict:")
    return name.partition(",")[0].partition(":")[0]


def prove(session: nox.Session, python: str, device: str, options: Sequence[str]) -> None:
    """Ask the suite. The whole is judged by its verdicts, a shard by what failed in it."""
    name = "-".join([device, *options]).replace(":", "-").replace(",", "-").replace("/", "-of-")
    path = Path(session.create_tmp()).resolve() / f"{name}.json"
    path.unlink(missing_ok=True)
    suite = ["--device", device, "--jobs", "2", "--json", str(path), *options]
    session.run(python, *CONFORMANCE, *suite, success_codes=[0, 1], external=True)
    session.run(python, *CONFORMANCE, "verify", str(path), external=True)
    report = json.loads(path.read_text("utf-8"))
    why = [f"{tier}: {text}" for tier, found in report["tiers"].items() for text in found["why"]]
    if "--shard" in options:
        why = [row["name"] for row in report["results"] if row["outcome"] == "failed"]
    if why:
        session.error(f"{device} does not pass: {len(why)} reasons, such as {'; '.join(why[:5])}")
