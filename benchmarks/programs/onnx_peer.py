"""Inference by ONNX Runtime, of a file that torch.onnx writes."""

from __future__ import annotations

import importlib
import io
import os
import warnings
from collections.abc import Mapping
from typing import Any

from models.base import Array
from programs.setting import Setting
from programs.torch_peer import TorchStep


class OnnxStep:
    """A step of ONNX Runtime on the processor."""

    name = "onnxruntime"

    def __init__(self, setting: Setting, state: Mapping[str, Array], gpu: bool) -> None:
        if gpu:
            raise NotImplementedError("it runs on the processor alone")
        if setting.mode != "inference" or setting.dtype != "float32":
            raise NotImplementedError("inference in float32 alone is exported")
        runtime, torch = map(importlib.import_module, ("onnxruntime", "torch"))
        eager = TorchStep(setting, state)
        file = io.BytesIO()
        inputs = tuple(x.cpu() for x in eager.inputs)
        names = [f"input{number}" for number in range(len(inputs))]
        options = runtime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", 0))
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        processor = {"providers": ["CPUExecutionProvider"]}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exported = {"input_names": names, "dynamo": False}
                torch.onnx.export(eager.module.cpu(), inputs, file, **exported)
            self.session = runtime.InferenceSession(file.getvalue(), options, **processor)
        except Exception as error:
            problem = f"torch.onnx: {type(error).__name__}: {error}"
            raise NotImplementedError(problem[:200]) from error
        given = {x.name for x in self.session.get_inputs()}
        pairs = zip(names, inputs, strict=True)
        self.inputs = {name: x.numpy() for name, x in pairs if name in given}

    def run(self, times: int = 1) -> Any:
        """Make steps, and return what the last one returns."""
        for _ in range(times):
            made = self.session.run(None, self.inputs)
        return made

    def wait(self) -> None:
        """Return: results are made when the call returns."""

    def host(self, made: Any) -> Array:
        """Return a result as a NumPy array."""
        found: Array = made[0]
        return found
