"""Bundles: choices of the tuner that were measured on another machine with the same device.

Requirements: a bundle is a text file of plain data. It holds for devices with the same properties
that kernels are chosen by, whatever their names are, and for families with the same ways. What does
not hold is ignored and reported. Nothing is read until the tuner chooses for a device. Own
measurements precede a bundle. A bundle of a processor holds for half to twice its cores, and the
nearest precedes the others.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from math import log
from pathlib import Path
from typing import Any, Final

from calor.errors import PluginError
from calor.plugins.discovery import tuned
from calor_kernel.contract.ways import brought
from calor_kernel.contract.work import LOWERINGS
from calor_kernel.device.protocol import Device

FORM: Final = 1
# A smaller gain over the first choice is within the spread of measurements.
GAIN: Final = 1.05
# Processors with up to twice or half as many cores, as the logarithm of the quotient.
_NEAR: Final = 0.7
# Features that no choice of a kernel depends on.
_OTHER: Final = frozenset(("print", "links", "fork"))
_WAY: Final = re.compile(r'\bWay\(\s*"([^"]+)"')


@dataclass(frozen=True)
class Bundle:
    """The contents of a file.

    Attributes
    ----------
    name : str
        The file and what brings it, for people.
    device : mapping
        The properties of the device, of :func:`properties`.
    tables : mapping
        The version of its family's ways, for each op.
    choices : mapping
        The name of the fastest candidate and its gain over the first choice, by problem.
    """

    name: str
    device: Mapping[str, Any]
    tables: Mapping[str, str]
    choices: Mapping[str, tuple[str, float]]

    @staticmethod
    def read(file: Path, source: str) -> Bundle:
        """Return the bundle of a file.

        Raises
        ------
        PluginError
            If the file is damaged or of another form.
        """
        name = f"{file.name} of {source}"
        try:
            data = json.loads(file.read_text("utf-8"))
            if data["form"] != FORM:
                raise PluginError(f"{name} has form {data['form']}, this calor-kernel reads {FORM}")
            return Bundle(name, data["device"], data["tables"], data["choices"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PluginError(f"{name} is damaged: {type(error).__name__}: {error}") from error

    def refusal(self, device: Mapping[str, Any]) -> str | None:
        """Return why the bundle does not hold for a device, or None."""
        gpu = "memory" in device
        for key in dict.fromkeys([*device, *self.device]):
            mine, other = device.get(key), self.device.get(key)
            near = key == "cores" and not gpu and self.distance(device) <= _NEAR
            if mine != other and not near:
                return f"for another device: {key} {_text(other, mine)}, here {_text(mine, other)}"
        return None

    def distance(self, device: Mapping[str, Any]) -> float:
        """Return how far the device's number of cores is from the bundle's."""
        return abs(log(device["cores"] / self.device["cores"]))

    @cached_property
    def stale(self) -> frozenset[str]:
        """The ops whose families have other ways now."""
        root = self.device["toolchain"]
        return frozenset(op for op, known in self.tables.items() if table(op, root) != known)


def _text(value: Any, other: Any) -> str:
    """Return a property for people; of lists what only one has."""
    if isinstance(value, list) and isinstance(other, list):
        return ", ".join(str(one) for one in value if one not in other) or "no more"
    return str(value)


class Bundles:
    """The choices that installed bundles have for a device."""

    def __init__(self, device: Device) -> None:
        self.device = device

    @cached_property
    def found(self) -> list[tuple[str, Bundle | str]]:
        """Each installed file, with its bundle, or why it is ignored."""
        own = properties(self.device)
        found: list[tuple[str, Bundle | str]] = []
        for source, folder in tuned().items():
            for file in sorted(folder.glob("*.json")):
                try:
                    bundle = Bundle.read(file, source)
                except PluginError as error:
                    found.append((file.name, str(error)))
                else:
                    found.append((bundle.name, bundle.refusal(own) or bundle))
        return found

    @cached_property
    def fitting(self) -> list[Bundle]:
        """The bundles for this device, the nearest first."""
        own = properties(self.device)
        fitting = [bundle for _, bundle in self.found if isinstance(bundle, Bundle)]
        return sorted(fitting, key=lambda bundle: bundle.distance(own))

    @cached_property
    def ops(self) -> frozenset[str]:
        """The ops with choices that hold."""
        return frozenset(op for b in self.fitting for op in b.tables if op not in b.stale)

    def get(self, op: str, key: str) -> str | None:
        """Return the name of the candidate chosen for a problem, None if no bundle has one."""
        for bundle in self.fitting if op in self.ops else ():
            choice = bundle.choices.get(key)
            if choice is not None and op not in bundle.stale:
                return choice[0]
        return None

    def report(self) -> Iterator[tuple[str, str]]:
        """Yield what was found, for ``python -m calor doctor``: a file, and its use."""
        for name, bundle in self.found:
            if isinstance(bundle, str):
                yield name, f"ignored: {bundle}"
                continue
            lost = sum(op_of(key) in bundle.stale for key in bundle.choices)
            text = f"{len(bundle.choices) - lost} choices for {bundle.device['cores']} cores"
            if lost:
                stale = ", ".join(sorted(bundle.stale))
                text += f"; ignored: {lost} for other versions of the ways of {stale}"
            yield name, text


def properties(device: Device) -> dict[str, Any]:
    """Return the properties of a device that the choice of kernels depends on, as plain data.

    The cores of a processor are its threads. Sizes of memory tell GPUs of one kind apart, whose
    bandwidths differ; they are rounded, because drivers keep a part.
    """
    info = device.info
    found = {
        "toolchain": type(device.toolchain).__module__.partition(".")[0],
        "features": sorted(info.features - _OTHER),
        "matrices": sorted(map(str, info.matrices)),
        "vector_bytes": info.vector_bytes,
        "planes": list(info.planes),
        "cores": info.cores,
    }
    if info.max_units > 1:
        found["units"] = info.max_units
        found["shared"] = info.shared_bytes
        found["memory"] = round(2 * log(max(info.memory_bytes, 1), 2)) / 2
    return found


def made(device: Device, lines: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bundle of a device's stored results, as plain data.

    It has the problems for which another candidate than the first choice gains.
    """
    root = type(device.toolchain).__module__.partition(".")[0]
    choices = {
        key: [value["work"], round(value["first"] / value["seconds"], 2)]
        for key, value in lines.items()
        if isinstance(value, dict) and value.get("first", 0.0) >= GAIN * value["seconds"]
    }
    return {
        "form": FORM,
        "description": device.info.description,
        "device": properties(device),
        "tables": {op: table(op, root) for op in sorted({*map(op_of, choices)})},
        "choices": choices,
    }


def op_of(key: str) -> str:
    """Return the op of a problem's key."""
    return key.partition("(")[0]


@cache
def table(op: str, toolchain: str) -> str:
    """Return a digest of the names of the ways of an op's family, read from its sources.

    Rows of other distributions count if they bring the toolchain: others refuse the device. The
    modules of some families are imported late, so they are read as text.
    """
    function = LOWERINGS.get(op)
    if function is None:
        return ""
    family = ".".join(function.__module__.split(".")[:3])
    places = [_place(family)]
    for entry in brought():
        module = entry.point.module
        fits = entry.name.startswith(family.rpartition(".")[2])
        if fits and module.partition(".")[0] == toolchain:
            places.append(_place(module.rpartition(".")[0]))
    names = sorted(name for place in dict.fromkeys(places) for name in _names(place))
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]


def _place(module: str) -> Path | None:
    """Return the folder of a package, or the file of a module, without importing it."""
    top, _, rest = module.partition(".")
    known = sys.modules.get(top)
    file = known.__file__ if known is not None else getattr(find_spec(top), "origin", None)
    if file is None:
        return None
    place = Path(file).parent.joinpath(*rest.split("."))
    return place if place.is_dir() else place.with_suffix(".py")


def _names(place: Path | None) -> Iterator[str]:
    """Yield the names of the ways in the modules of a place."""
    if place is None:
        return
    for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
        yield from _WAY.findall(file.read_text("utf-8"))
