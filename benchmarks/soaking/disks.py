"""Full disks: of the audit log, of the kernels' cache, of models, and of a client's files.

A disk is a file system in memory with little room, where the system lets this process make one;
elsewhere it is a limit of the size of files, which fails alike.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

import calor
import calor_http
from calor import nn
from calor.errors import CalorError
from calor.graph.file import save
from remote import Measured
from soaking.watching import Served, untyped, wait_until
from soaking.work import KINDS, MIB, Told, Undisturbed, do

# The room of a disk, in bytes.
ROOM = 256 * 1024
# The shares of a model's file that a full disk took.
SHARES = (0.0, 0.3, 0.9, 0.999)


@contextmanager
def disk(folder: Path, nbytes: int) -> Iterator[tuple[Path, bool]]:
    """Give a folder with little room, and whether it is a file system of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    options = ["mount", "-t", "tmpfs", "-o", f"size={nbytes}", "tmpfs", str(folder)]
    mounted = (
        shutil.which("mount") is not None
        and not subprocess.run(options, capture_output=True, check=False).returncode
    )
    try:
        yield folder, mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)


def limited() -> None:
    """Let this process write no file beyond the room of a disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))


def filled(folder: Path) -> Path:
    """Fill what is left of a disk; return the file that does."""
    path = folder / "filling"
    with path.open("wb", buffering=0) as file, suppress(OSError):
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass
    return path


def whole_lines(path: Path) -> tuple[int, int]:
    """Return how many lines of a log are whole, and how many are not."""
    good = bad = 0
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            json.loads(line)
            good += 1
        except ValueError:
            bad += 1
    bad += bool(path.read_bytes().rpartition(b"\n")[2])
    return good, bad


def worked(server: Served, device: str, told: Told, seeds: range) -> None:
    """Do work of every kind there, and compare its bits."""
    there = calor.device(f"{server.address}/{device}")
    undisturbed = Undisturbed(device)
    for seed in seeds:
        for kind in KINDS:
            try:
                do(told, there, kind, seed, undisturbed)
            except Exception as error:
                told.note(error)
    calor_http.close(there)


def of_audit_log(found: Measured, folder: Path, device: str) -> dict[str, Any]:
    """Fill the disk of the audit log while clients work; then make room by rotation."""
    with disk(folder / "disk", ROOM) as (place, mounted):
        path = place / "audit.jsonl"
        words = ["serve", "--devices", device, "--no-token", "--audit-log", str(path)]
        told = Told()
        with Served(words, folder, limit=None if mounted else limited) as server:
            there = calor.device(f"{server.address}/{device}")
            x = calor.asarray(np.zeros(8, np.float32), device=there)
            for _ in range(2000):
                (x + 1).numpy()
            calor_http.close(there)
            worked(server, device, told, range(2))
            lost = _lost(server)
            before = whole_lines(path)
            path.rename(place / "audit.1")
            (place / "audit.1").rename(place / "audit.2")
            (place / "audit.2").write_bytes(b"")
            worked(server, device, told, range(2, 3))
            kept = wait_until(path.is_file, 10) and whole_lines(path)[0] > 0
            after = whole_lines(path) if kept else (0, 0)
            texts = untyped(server.log(), server.metrics())
    _common(found, "a full disk of the audit log", told, texts)
    found.bar("a full disk of the audit log: lines that were lost and counted", lost, 1, least=True)
    bad = before[1] + after[1]
    found.bar("a full disk of the audit log: lines in part", bad, 0, least=False)
    found.bar("a full disk of the audit log: lines after there is room", after[0], 1, least=True)
    return {"mounted": mounted, "lost": lost, "lines": [before, after], **told.data()}


def _lost(server: Served) -> int:
    lines = server.metrics().splitlines()
    told = [line for line in lines if line.startswith("calor_http_audit_lost_lines_total ")]
    return int(float(told[0].split()[-1]))


def _common(found: Measured, name: str, told: Told, texts: int) -> None:
    bare = texts + sum(n for error, n in told.errors.items() if error.startswith("untyped"))
    found.bar(f"{name}: errors without a type", bare, 0, least=False)
    found.bar(f"{name}: wrong results", len(told.wrong), 0, least=False)
    unfinished = sum(told.errors.values())
    found.bar(f"{name}: work that failed", unfinished, 0, least=False)


def of_cache(found: Measured, folder: Path, device: str) -> dict[str, Any]:
    """Fill the disk of the compiled kernels and of temporary files; then start again on it."""
    told = Told()
    texts = 0
    with disk(folder / "disk", ROOM) as (place, mounted):
        words = ["serve", "--devices", device, "--no-token"]
        paths = {"CALOR_CACHE_DIR": str(place / "cache"), "TMPDIR": str(place)}
        server = Served(words, folder, paths, None if mounted else limited)
        for seeds in (range(2), range(2, 3)):
            with server:
                if mounted:
                    filled(place)
                worked(server, device, told, seeds)
                texts += untyped(server.log(), server.metrics())
        parts = [path.name for path in place.rglob(".*") if path.is_file()]
    _common(found, "a full disk of kernels", told, texts)
    found.bar("a full disk of kernels: files in part", len(parts), 0, least=False)
    return {"mounted": mounted, "parts": parts, **told.data()}


def of_models(found: Measured, folder: Path, device: str) -> dict[str, Any]:
    """Serve models whose files a full disk has cut off: none of them is served."""
    from calor_http.model.freezing import frozen

    calor.random.seed(1)
    layers = nn.Sequential(nn.Linear(16, 2048), nn.Tanh(), nn.Linear(2048, 8)).eval()
    whole = save(frozen(layers, calor.ones((3, 16))))
    calor.random.seed(2)
    cut = save(frozen(nn.Linear(16, 8).eval(), calor.ones((3, 16))))
    statuses, told = [], []
    for suffix, content in ((".calor", whole), (".calor", cut), (".onnx", _onnx(folder))):
        for share in SHARES:
            place = folder / "models" / "layers" / "1"
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            (place / f"model{suffix}").write_bytes(content[: int(len(content) * share)])
            words = ["-m", "calor_http", "model", str(place.parent), "--device", device]
            ended = subprocess.run(
                [sys.executable, *words, "--port", "0"],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            statuses.append(ended.returncode)
            told.append(ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else "")
            if "Traceback" in ended.stderr:
                told[-1] = "untyped " + told[-1]
    bare = sum(text.startswith("untyped") or not text for text in told)
    found.bar("a model in part: errors without a type", bare, 0, least=False)
    served = sum(status != 2 for status in statuses)
    found.bar("a model in part: times it was served", served, 0, least=False)
    return {"statuses": statuses, "told": sorted({text.rpartition("/")[2] for text in told})}


def _onnx(folder: Path) -> bytes:
    import onnx

    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        scale (float[N, 2] x) => (float[N, 2] y) <float[2] two = {2, 3}> { y = Mul (x, two) }"""
    path = folder / "scale.onnx"
    onnx.save(onnx.parser.parse_model(text), str(path))
    return path.read_bytes()


def of_client(found: Measured, folder: Path, device: str) -> dict[str, Any]:
    """Save the weights of a server's device to a full disk: the file before them stays."""
    words = ["serve", "--devices", device, "--no-token"]
    kinds: dict[str, int] = {}
    with disk(folder / "disk", ROOM) as (place, mounted), Served(words, folder) as server:
        there = calor.device(f"{server.address}/{device}")
        path = place / "weights.safetensors"
        small = {"w": calor.asarray(np.arange(100.0), device=there)}
        large = {"w": calor.asarray(np.zeros(MIB), device=there)}
        calor.save(small, path)
        old = resource.getrlimit(resource.RLIMIT_FSIZE)
        for _ in range(3):
            try:
                if not mounted:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, old[1]))
                calor.save(large, path)
            except (CalorError, OSError) as error:
                kinds[type(error).__name__] = kinds.get(type(error).__name__, 0) + 1
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, old)
        same = np.array_equal(calor.load(path)["w"].numpy(), np.arange(100.0))
        files = sorted(os.listdir(place))
        calor_http.close(there)
    found.bar("a full disk of a client: errors it got", sum(kinds.values()), 3, least=True)
    found.bar("a full disk of a client: the file before is whole", int(same), 1, least=True)
    found.bar("a full disk of a client: files beside it", len(files) - 1, 0, least=False)
    return {"mounted": mounted, "errors": kinds, "files": files}


def disks(found: Measured, folder: Path, device: str) -> dict[str, Any]:
    """Fill all disks; add the bars to what was found."""
    made: dict[str, Any] = {}
    for fill in (of_audit_log, of_cache, of_models, of_client):
        place = folder / fill.__name__
        place.mkdir(exist_ok=True)
        made[fill.__name__.removeprefix("of_")] = fill(found, place, device)
    return made
