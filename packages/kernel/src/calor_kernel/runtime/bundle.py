"""Bundles: compiled and tuned results as a directory for other machines of the same kind.

Requirements: a bundle has the form of the cache, so it is made by copying and read by the same
code. Entries for another processor, compiler or source version have other names and do no harm.
"""

from __future__ import annotations

from pathlib import Path

from calor_kernel.device.images import KERNELS
from calor_kernel.device.storage import Lines, Storage
from calor_kernel.runtime.autotune import TUNING


def make_bundle(source: Path, target: Path) -> None:
    """Add the entries and tuning results of a cache to a bundle."""
    images, made = Storage(source / KERNELS), Storage(target / KERNELS)
    for key in images.keys():  # noqa: SIM118 - a storage is no mapping
        data = images.read(key)
        if data is not None:
            made.write(key, data)
    for file in sorted((source / TUNING).glob("*.lines")):
        lines = Lines(target / TUNING / file.name)
        for name, value in Lines(file).items():
            if lines.get(name) != value:
                lines.put(name, value)


def cache_figures(directory: Path) -> str:
    """Return the figures of a cache or bundle in one line."""
    storage = Storage(directory / KERNELS)
    sizes = [storage.size(key) for key in storage.keys()]  # noqa: SIM118 - as above
    tuned = sum(len(Lines(file)) for file in (directory / TUNING).glob("*.lines"))
    return f"{directory}: {len(sizes)} kernels, {sum(sizes)} bytes; {tuned} tuning results"
