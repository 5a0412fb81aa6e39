"""A million calls through one connection, in rows and one by one."""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic
from typing import Any

from remote import GROWTH, Calls, Measured, slope
from soaking.watching import Served, figures

# Of so many calls one is waited for, and so many samples are taken.
WAITED, SAMPLES = 4, 40


def calls(found: Measured, folder: Path, device: str, count: int) -> dict[str, Any]:
    """Call one small program; add the bars to what was found."""
    words = ["serve", "--devices", device, "--no-token"]
    samples: list[list[int]] = []
    with Served(words, folder) as server:
        there = Calls(f"{server.address}/{device}")
        step = max(count // SAMPLES // WAITED, 1) * WAITED
        began, done = monotonic(), 0
        try:
            while done <= count:
                ours, theirs = figures(os.getpid()), server.figures()
                samples.append([done, ours.resident, theirs.resident, ours.files, theirs.files])
                for _ in range(step // WAITED):
                    there.waited()
                    for _ in range(WAITED - 1):
                        there.bound()
                done += step
            seconds = monotonic() - began
            requests = server.status()["requests"]
            backend: Any = there.device.backend
            numbers = next(backend.requests.numbers)
            there.waited()
        finally:
            there.device.backend.close()
    settled = samples[len(samples) // 4 :]
    for column, name in ((1, "client"), (2, "server")):
        grows = slope(settled, column)
        found.bar(f"calls: bytes by which the {name} grows in one", grows, GROWTH, least=False)
    files = max(abs(samples[-1][n] - samples[0][n]) for n in (3, 4))
    found.bar("calls: files open beyond the start", files, 1, least=False)
    found.bar("calls: requests, as many as were waited for", requests, done // WAITED, least=True)
    return {
        "calls": done,
        "requests": requests,
        "numbers": numbers,
        "seconds": seconds,
        "samples": samples,
        "columns": ["calls", "client resident", "server resident", "client files", "server files"],
    }
