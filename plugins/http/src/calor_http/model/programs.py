"""What is served: a model of a file on a device, which takes host arrays and returns host arrays.

Requirements: a call costs the copies and the run; a file's content is data, and nothing in it is
run or imported; a model with values that the protocol cannot say is refused when it is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

import calor
from calor.backends.device import Device
from calor.errors import ArgumentError
from calor.graph.file import load as load_graph
from calor.graph.graph import Graph
from calor.recording.replay import replay
from calor.transforms.hosted import host_call_of
from calor_http.model.datatypes import HostType, datatype_of

Array = np.ndarray[Any, Any]
SUFFIXES: Final = (".onnx", ".calor")


@dataclass(frozen=True, slots=True)
class Port:
    """An input or an output of a model.

    Parameters
    ----------
    name : str
        The name.
    dtype : numpy.dtype
        The element type.
    datatype : str
        The protocol's name of the element type.
    shape : tuple or None
        The sizes; a text or None where a size is open. None where the rank is open.
    """

    name: str
    dtype: HostType
    datatype: str
    shape: tuple[int | str | None, ...] | None

    @property
    def sizes(self) -> list[int]:
        """The shape as the protocol says it: -1 where a size is open."""
        return [n if isinstance(n, int) else -1 for n in self.shape or ()]


class Served(Protocol):
    """A model as the server sees it."""

    platform: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def run(self, feed: Mapping[str, Array]) -> Sequence[Array]:
        """Return all outputs as arrays that nobody else writes, for all inputs by name."""
        ...


def port(name: str, dtype: HostType | None, shape: Any, where: str) -> Port:
    """Return an input or output; ArgumentError where the protocol has no such type."""
    datatype = None if dtype is None else datatype_of(dtype)
    if dtype is None or datatype is None:
        raise ArgumentError(f"{where} is {dtype}, which the inference protocol has no datatype for")
    return Port(name, dtype, datatype, shape)


class OnnxModel:
    """An ONNX model."""

    platform = "onnx"

    def __init__(self, path: Path, device: Device) -> None:
        if find_spec("calor_onnx") is None:
            raise ArgumentError(f'{path} needs calor-onnx. pip install "calor[onnx]"')
        import calor_onnx

        self._model = calor_onnx.load(path, device)
        self.inputs = self._ports(self._model.inputs, "input", path)
        self.outputs = self._ports(self._model.outputs, "output", path)

    def _ports(self, infos: Sequence[Any], what: str, path: Path) -> tuple[Port, ...]:
        made = []
        for info in infos:
            where = f"{path}: the {what} {info.name!r}"
            if info.kind.startswith("optional") and what == "input":
                continue
            if info.kind != "tensor":
                raise ArgumentError(f"{where} is a {info.kind}; only tensors are served")
            made.append(port(info.name, info.dtype, info.shape, where))
        return tuple(made)

    def run(self, feed: Mapping[str, Array]) -> Sequence[Array]:
        """Return all outputs as arrays that nobody else writes, for all inputs by name."""
        made = self._model.repeat(feed)
        if made is None:
            from calor_onnx.session.values import host_of

            made = [host_of(value) for value in self._model.run(feed).values()]
            self._model.keep_run(feed)
        return made


class GraphModel:
    """A graph of calor in a file, whose shapes are fixed."""

    platform = "calor_graph"

    def __init__(self, path: Path, device: Device) -> None:
        graph = load_graph(path.read_bytes())
        self._check(graph, path)
        self._device = device
        self.inputs = _ports_of(graph.input_specs, "input", path)
        self.outputs = _ports_of(graph.output_specs, "output", path)
        self._jitted = calor.jit(lambda tensors: replay(graph, tensors))
        self._hosted: Any = None

    def _check(self, graph: Graph, path: Path) -> None:
        if graph.host:
            raise ArgumentError(
                f"{path} takes Python numbers; trace it with tensors in their place"
            )
        if not graph.inputs:
            raise ArgumentError(f"{path} has no input, so there is nothing to ask it")

    def run(self, feed: Mapping[str, Array]) -> Sequence[Array]:
        """Return all outputs as arrays that nobody else writes, for all inputs by name."""
        arrays = [feed[known.name] for known in self.inputs]
        if self._hosted is not None and self._hosted.fits(arrays):
            made = self._hosted(arrays)
            if made is not None:
                return list(made)
        with calor.device(self._device):
            tensors = [calor.asarray(array, device=self._device) for array in arrays]
            found = [np.array(tensor.numpy()) for tensor in self._jitted(tensors)]
        self._hosted = host_call_of(self._jitted.programs[0])
        return found


def _ports_of(specs: Sequence[Any], what: str, path: Path) -> tuple[Port, ...]:
    return tuple(
        port(f"{what}{n}", spec.dtype.numpy, spec.shape, f"{path}: {what} {n}")
        for n, spec in enumerate(specs)
    )


def load(path: Path, device: Device) -> Served:
    """Return the model of a file on a device.

    Parameters
    ----------
    path : Path
        A file with the suffix ``.onnx`` or ``.calor``.
    device : Device
        What it runs on.

    Returns
    -------
    Served
        The model.

    Raises
    ------
    CalorError
        If the file is no model, or one that the protocol cannot speak of.
    """
    if path.suffix not in SUFFIXES:
        raise ArgumentError(f"{path} is neither .onnx nor .calor, so nobody knows how to load it")
    return OnnxModel(path, device) if path.suffix == ".onnx" else GraphModel(path, device)
