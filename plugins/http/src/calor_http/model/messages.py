"""Requests and answers of inference: JSON, and tensors as bytes behind it.

Requirements: a size is checked before anything is made of it; a tensor has exactly the bytes that
its shape and datatype take; the JSON before binary tensors is mostly the same from request to
request, so what was found out about it is kept by its bytes.

References
----------
Open Inference Protocol, "HTTP/REST", and its "Binary Tensor Data" extension.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Any, Final

import numpy as np

from calor_http.model.datatypes import HostType, host_type_of
from calor_http.model.elements import numbers_of
from calor_http.model.errors import Refused
from calor_http.model.programs import Array, Port

_ORJSON: Any = import_module("orjson") if find_spec("orjson") else None
_AXES: Final = 32
# Headers that are kept, and the longest of them.
_KEPT: Final = 256
_LONGEST_KEPT: Final = 4096
_LONGEST_ID: Final = 1024
# What would be done otherwise than the sender means.
_NOT_HERE: Final = ("shared_memory_region", "classification", "sequence_id")


@dataclass(frozen=True, slots=True)
class Given:
    """An input of a request: its bytes lie from ``start`` to ``end``, or ``data`` is its JSON."""

    name: str
    dtype: HostType
    shape: tuple[int, ...]
    start: int
    end: int
    data: Any


@dataclass(frozen=True, slots=True)
class Wanted:
    """An output that a request wants, by place, and whether as bytes."""

    place: int
    binary: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """What the JSON of a request says, checked against the model."""

    id: str | None
    inputs: tuple[Given, ...]
    outputs: tuple[Wanted, ...]
    binary_bytes: int


def read_json(text: bytes) -> Any:
    """Return what JSON says; Refused for anything else."""
    try:
        if _ORJSON is not None:
            return _ORJSON.loads(text)
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise Refused(400, f"the request is not JSON: {said}") from None


def write_json(message: Any) -> bytes:
    """Return a message as JSON."""
    if _ORJSON is not None:
        found: bytes = _ORJSON.dumps(message, option=_ORJSON.OPT_SERIALIZE_NUMPY)
        return found
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode()


def _no_number(name: str) -> None:
    raise ValueError(f"JSON has no number {name}; send the tensor as binary data")


class Reader:
    """Reads the requests for one model.

    Parameters
    ----------
    inputs, outputs : sequence of Port
        Those of the model.
    """

    def __init__(self, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self._inputs = {known.name: known for known in inputs}
        self._places = {known.name: place for place, known in enumerate(outputs)}
        self._kept: dict[bytes, Asked] = {}

    def read(self, body: bytes, length: int | None) -> tuple[Asked, dict[str, Array]]:
        """Return what a request asks, and its tensors by name.

        Parameters
        ----------
        body : bytes
            The body.
        length : int or None
            How many bytes of it are JSON; None if all are.
        """
        text = body if length is None else body[:length]
        asked = self._kept.get(text) if len(text) <= _LONGEST_KEPT else None
        if asked is None:
            asked = self._asked(read_json(text))
            if len(text) <= _LONGEST_KEPT and all(g.data is None for g in asked.inputs):
                if len(self._kept) >= _KEPT:
                    self._kept.clear()
                self._kept[text] = asked
        if len(body) - len(text) != asked.binary_bytes:
            raise Refused(
                400,
                f"{len(body) - len(text)} bytes follow the JSON, and its inputs say "
                f"{asked.binary_bytes}; Inference-Header-Content-Length is the size of the JSON",
            )
        return asked, {g.name: _array(g, body, len(text)) for g in asked.inputs}

    def _asked(self, message: Any) -> Asked:
        if not isinstance(message, dict):
            raise Refused(400, "a request is a JSON object with 'inputs'")
        name = message.get("id")
        if name is not None and not (isinstance(name, str) and len(name) <= _LONGEST_ID):
            raise Refused(400, f"'id' is a string of at most {_LONGEST_ID} characters")
        default = _flag(_parameters(message, "the request"), "binary_data_output")
        inputs, total = self._given(_objects(message, "inputs"))
        return Asked(name, inputs, self._wanted(message, default), total)

    def _given(self, messages: list[Any]) -> tuple[tuple[Given, ...], int]:
        made: dict[str, Given] = {}
        start = 0
        for message in messages:
            name = message.get("name")
            known = self._inputs.get(name) if isinstance(name, str) else None
            if known is None:
                raise Refused(
                    400,
                    f"the model has no input {str(name)[:80]!r}; it takes "
                    f"{', '.join(self._inputs)}",
                )
            if known.name in made:
                raise Refused(400, f"the input {name!r} is given twice")
            given = _given(known, message, start)
            made[known.name] = given
            start = given.end
        missing = [name for name in self._inputs if name not in made]
        if missing:
            raise Refused(400, f"the input {missing[0]!r} is missing")
        # In the model's order, whatever that of the request is.
        return tuple(made[name] for name in self._inputs), start

    def _wanted(self, message: Any, default: bool) -> tuple[Wanted, ...]:
        if not message.get("outputs"):
            return tuple(Wanted(place, default) for place in self._places.values())
        made: dict[int, Wanted] = {}
        for wanted in _objects(message, "outputs"):
            name = wanted.get("name")
            place = self._places.get(name) if isinstance(name, str) else None
            if place is None:
                raise Refused(
                    400,
                    f"the model has no output {str(name)[:80]!r}; it gives "
                    f"{', '.join(self._places)}",
                )
            if place in made:
                raise Refused(400, f"the output {name!r} is wanted twice")
            parameters = _parameters(wanted, f"the output {name!r}")
            binary = _flag(parameters, "binary_data") if "binary_data" in parameters else default
            made[place] = Wanted(place, binary)
        return tuple(made.values())


def _given(known: Port, message: Mapping[str, Any], start: int) -> Given:
    where = f"the input {known.name!r}"
    dtype = host_type_of(message.get("datatype"))
    if dtype != known.dtype:
        raise Refused(400, f"{where} is {message['datatype']}, the model takes {known.datatype}")
    shape = _shape(message.get("shape"), where)
    if known.shape is not None and not _fits(known.shape, shape):
        raise Refused(400, f"{where} has the shape {list(shape)}, the model takes {known.sizes}")
    parameters = _parameters(message, where)
    count = parameters.get("binary_data_size")
    data = message.get("data")
    if (count is None) == (data is None):
        raise Refused(400, f"{where} needs 'data' or the parameter 'binary_data_size', one of them")
    if count is None:
        return Given(known.name, dtype, shape, start, start, data)
    needed = prod(shape) * dtype.itemsize
    if type(count) is not int or count != needed:
        raise Refused(
            400,
            f"{where} is said to have {str(count)[:30]} bytes; {known.datatype} of the shape "
            f"{list(shape)} takes {needed}",
        )
    return Given(known.name, dtype, shape, start, start + count, None)


def _shape(given: Any, where: str) -> tuple[int, ...]:
    if not isinstance(given, list) or len(given) > _AXES:
        raise Refused(400, f"{where} needs a 'shape': a list of at most {_AXES} sizes")
    if not all(type(size) is int and 0 <= size < 1 << 48 for size in given):
        raise Refused(400, f"{where} has the shape {str(given)[:80]}; sizes are numbers from 0 on")
    return tuple(given)


def _fits(declared: Sequence[int | str | None], shape: tuple[int, ...]) -> bool:
    # Some exporters declare no axes for any shape, so one element of any rank fits.
    if not declared:
        return prod(shape) == 1
    return len(declared) == len(shape) and all(
        not isinstance(want, int) or want == size
        for want, size in zip(declared, shape, strict=True)
    )


def _objects(message: Mapping[str, Any], name: str) -> list[Any]:
    found = message.get(name)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise Refused(400, f"{name!r} is a list of objects")
    return found


def _parameters(message: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    found = message.get("parameters")
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise Refused(400, f"the parameters of {where} are an object")
    for name in _NOT_HERE:
        if found.get(name):
            raise Refused(400, f"{where} has the parameter {name!r}, which this server lacks")
    return found


def _flag(parameters: Mapping[str, Any], name: str) -> bool:
    found = parameters.get(name, False)
    if not isinstance(found, bool):
        raise Refused(400, f"the parameter {name!r} is true or false")
    return found


def _array(given: Given, body: bytes, start: int) -> Array:
    """Return an input as an array, without a copy where its bytes lie well."""
    if given.data is not None:
        return numbers_of(given.data, given.dtype, given.shape, f"the input {given.name!r}")
    first, count = start + given.start, given.end - given.start
    # Anything but these bits would be neither true nor false.
    if given.dtype.kind == "b" and np.frombuffer(body, np.uint8, count, first).max(initial=0) > 1:
        raise Refused(400, f"the input {given.name!r} has bytes that are neither 0 nor 1")
    count //= given.dtype.itemsize
    found = np.frombuffer(body, given.dtype, count, first).reshape(given.shape)
    return found if found.flags.aligned else found.copy()


class Writer:
    """Writes the answers of one model.

    Parameters
    ----------
    name, version : str
        Those of the model.
    outputs : sequence of Port
        Its outputs.
    """

    def __init__(self, name: str, version: str, outputs: Sequence[Port]) -> None:
        self._start = {"model_name": name, "model_version": version}
        self._outputs = outputs
        self._kept: dict[Any, bytes] = {}

    def write(self, asked: Asked, results: Sequence[Array]) -> tuple[bytes, int | None]:
        """Return the body of an answer, and how many bytes of it are JSON; None if all are."""
        wanted = asked.outputs
        if not all(w.binary for w in wanted):
            return self._whole(asked, results)
        key = asked.id, wanted, tuple(results[w.place].shape for w in wanted)
        head = self._kept.get(key)
        if head is None:
            head = write_json(self._message(asked, results))
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[key] = head
        return b"".join([head, *[results[w.place].tobytes() for w in wanted]]), len(head)

    def _whole(self, asked: Asked, results: Sequence[Array]) -> tuple[bytes, int | None]:
        head = write_json(self._message(asked, results))
        parts = [results[w.place].tobytes() for w in asked.outputs if w.binary]
        return b"".join([head, *parts]), len(head) if parts else None

    def _message(self, asked: Asked, results: Sequence[Array]) -> dict[str, Any]:
        made: dict[str, Any] = dict(self._start)
        if asked.id:
            made["id"] = asked.id
        made["outputs"] = [self._output(w, results[w.place]) for w in asked.outputs]
        return made

    def _output(self, wanted: Wanted, array: Array) -> dict[str, Any]:
        known = self._outputs[wanted.place]
        made = {"name": known.name, "datatype": known.datatype, "shape": list(array.shape)}
        if wanted.binary:
            return {**made, "parameters": {"binary_data_size": array.nbytes}}
        if array.dtype.kind not in "biu":
            if not np.isfinite(array).all():
                raise Refused(
                    422,
                    f"the output {known.name!r} has infinities or NaN, which JSON has no numbers "
                    f"for; ask for it as binary data",
                )
            if array.dtype.kind != "f":
                array = array.astype(np.float32)
        flat = array.reshape(-1)
        direct = _ORJSON is not None and array.dtype.itemsize > 2 and flat.flags.c_contiguous
        return {**made, "data": flat if direct else flat.tolist()}
