"""InferenceSession: a model that runs, as ONNX Runtime gives it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from onnx import ModelProto

from calor.backends.selection import as_device
from calor_onnx.constants import Constant
from calor_onnx.errors import CopyError
from calor_onnx.model import Model
from calor_onnx.reading import read
from calor_onnx.session.described import ModelMetadata, NodeArg
from calor_onnx.session.faults import InvalidArgument, loading, running
from calor_onnx.session.options import RunOptions, SessionOptions
from calor_onnx.session.providers import CPU, chosen
from calor_onnx.session.values import OrtValue, host_of


class Session:
    """What sessions share; ONNX Runtime has it under this name."""

    def __init__(self) -> None:
        self._model: Model
        self._options = SessionOptions()
        self._provider = CPU
        self._provider_options: dict[str, Any] = {}

    def get_session_options(self) -> SessionOptions:
        """Return the options that the session was made with."""
        return self._options

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs that a run needs: name, type and shape."""
        graph = self._model.imported.proto.graph
        known = {info.name for info in self._model.inputs}
        return [NodeArg.of(info) for info in graph.input if info.name in known]

    def get_outputs(self) -> list[NodeArg]:
        """Return the outputs: name, type and shape."""
        return [NodeArg.of(info) for info in self._model.imported.proto.graph.output]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the inputs that have a value when a run gives none."""
        graph = self._model.imported.proto.graph
        known = {info.name for info in self._model.inputs}
        return [NodeArg.of(info) for info in graph.input if info.name not in known]

    def get_modelmeta(self) -> ModelMetadata:
        """Return what the model's file says of itself."""
        return ModelMetadata.of(self._model.metadata)

    def get_providers(self) -> list[str]:
        """Return the provider that computes, and the processor, which computes shapes."""
        return [self._provider] if self._provider == CPU else [self._provider, CPU]

    def get_provider_options(self) -> dict[str, dict[str, Any]]:
        """Return the options of each provider, by its name."""
        return {name: {} for name in self.get_providers()}

    def io_binding(self) -> Any:
        """Return an IOBinding: values that stay on the device between runs."""
        from calor_onnx.session.binding import IOBinding

        return IOBinding(self)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Return the outputs of those names (all without any) as host arrays.

        Inputs are host arrays or OrtValues by name, a list for a sequence. Raises InvalidArgument
        for a name, type or shape that the model does not take.
        """
        return [host_of(value) for value in self._values(output_names, input_feed, run_options)]

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Return the outputs as OrtValues, which stay on the device."""
        made = self._values(output_names, input_dict_ort_values, run_options)
        return [OrtValue(value) for value in made]

    def run_with_iobinding(self, iobinding: Any, run_options: RunOptions | None = None) -> None:
        """Run on the values of an IOBinding, which then holds the outputs."""
        if run_options is not None:
            run_options.check()
        iobinding.run()

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Any,
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run, then call ``callback(outputs, user_data, error)``; here before this returns."""
        try:
            outputs = self.run(output_names, input_feed, run_options)
        except Exception as error:
            callback([], user_data, str(error))
        else:
            callback(outputs, user_data, "")

    def _values(
        self,
        output_names: Sequence[str] | None,
        feed: Mapping[str, Any],
        run_options: RunOptions | None,
    ) -> list[Any]:
        model = self._model
        if run_options is not None:
            run_options.check()
        missing = [info.name for info in model.inputs if info.name not in feed
                   and not info.kind.startswith("optional")]  # fmt: skip
        if missing:
            raise ValueError(
                f"Required inputs ({missing}) are missing from input feed ({[*feed]})."
            )
        given = {name: _plain(value) for name, value in feed.items()}
        with running():
            outputs = model.run(given)
        try:
            return [outputs[n] for n in output_names] if output_names else [*outputs.values()]
        except KeyError as error:
            raise InvalidArgument(
                f"Invalid output name: {error.args[0]}; the model gives {', '.join(outputs)}"
            ) from None

    def __reduce__(self) -> NoReturn:
        raise CopyError(
            "a session holds memory of its device and cannot be pickled or copied; make it again: "
            "calor_onnx.InferenceSession(path)"
        )

    def enable_fallback(self) -> None:
        """Do nothing: no device is changed for another while a session runs."""

    def disable_fallback(self) -> None:
        """Do nothing: no device is changed for another while a session runs."""

    def end_profiling(self) -> str:
        """Return the empty name: no profile is written."""
        return ""


class InferenceSession(Session):
    """A model from a path or bytes, on the device of the first provider that is here.

    >>> import calor_onnx as onnxruntime, numpy as np, onnx
    >>> proto = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     double (float[N] x) => (float[N] y) { y = Add (x, x) }''')
    >>> session = onnxruntime.InferenceSession(proto.SerializeToString())
    >>> session.run(None, {"x": np.ones(2, np.float32)})
    [array([2., 2.], dtype=float32)]
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if not isinstance(path_or_bytes, str | os.PathLike | bytes | bytearray | ModelProto):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        self._options = sess_options or SessionOptions()
        self._provider, self._device = chosen(providers, provider_options)
        is_path = isinstance(path_or_bytes, str | os.PathLike)
        with loading(str(Path(path_or_bytes)) if is_path else "bytes"):  # type: ignore[arg-type]
            imported = read(path_or_bytes)
            for name, value in self._options.initializers.items():
                if name not in imported.graph.constants:
                    raise InvalidArgument(f"the model has no initializer {name!r}")
                imported.graph.constants[name] = Constant.of(host_of(_plain(value)))
            self._model = Model(imported, self._device)

    def set_providers(
        self, providers: Sequence[Any] | None = None, provider_options: Sequence[Any] | None = None
    ) -> None:
        """Move the model to the device of the first provider that is here."""
        provider, device = chosen(providers, provider_options)
        if device is not self._model.device:
            imported = self._model.imported
            inner = [g for node in imported.graph.walk() for g in node.subgraphs()]
            for graph in (imported.graph, *inner):
                # The weights come back from the device that has held them.
                graph.constants = {n: Constant.of(c.array()) for n, c in graph.constants.items()}
            self._model = Model(imported, as_device(device))
        self._provider = provider

    @property
    def calor_model(self) -> Model:
        """The calor model behind the session."""
        return self._model

    @property
    def device(self) -> Any:
        """The device of calor that computes."""
        return self._model.device


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, OrtValue) else value
