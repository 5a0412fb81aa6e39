"""The interface ``onnx.backend``, which ONNX's own tests use.

``onnx.backend.test.BackendTest(backend_for("cpu"), __name__).test_cases`` are those tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.backend.base import Backend, BackendRep

from calor import Tensor
from calor_onnx.model import Model, load


class Prepared(BackendRep):
    """A loaded model."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs in order as host arrays."""
        if not isinstance(inputs, list | tuple):
            inputs = [inputs]
        # Inputs with a default count in the order only if all inputs are given.
        infos = self.model.inputs
        if len(inputs) > len(infos):
            infos = tuple(self.model.graph.inputs)
        given = dict(zip((info.name for info in infos), map(_array, inputs), strict=False))
        return tuple(map(_host, self.model.run(given).values()))


def _array(value: Any) -> Any:
    if value is None:
        return None
    return [_array(x) for x in value] if isinstance(value, list) else np.asarray(value)


def _host(value: Any) -> Any:
    if isinstance(value, list):
        return [_host(item) for item in value]
    return value.numpy() if isinstance(value, Tensor) else value


def backend_for(target: str) -> type[Backend]:
    """Return the Backend class of a device of calor.

    >>> from calor_onnx.backend import backend_for
    >>> backend_for("numpy").supports_device("CPU")
    True
    """

    class CalorBackend(Backend):
        @classmethod
        def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> BackendRep:
            return Prepared(load(model, target))

        @classmethod
        def run_model(
            cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
        ) -> tuple[Any, ...]:
            return Prepared(load(model, target)).run(inputs)

        @classmethod
        def supports_device(cls, device: str) -> bool:
            return device == "CPU"

    return CalorBackend
