"""InferenceSession: a model that runs, as ONNX Runtime gives it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from onnx import ModelProto

from calor.backends.selection import as_device
from calor_onnx.constants import Constant
from calor_onnx.errors import CopyError
from calor_onnx.model import Model
from calor_onnx.reading import read
from calor_onnx.session.describing import Describing
from calor_onnx.session.faults import Fail, InvalidArgument, loading, running
from calor_onnx.session.options import RunOptions, SessionOptions
from calor_onnx.session.providers import CPU, chosen
from calor_onnx.session.values import OrtValue, host_of


class Session(Describing):
    """What sessions share; ONNX Runtime has it under this name."""

    def __init__(self) -> None:
        self._options = SessionOptions()
        self._provider = CPU
        self._provider_options: dict[str, Any] = {}
        # Where each output is among them all.
        self._places: dict[str, int] = {}
        self._began = time.perf_counter_ns()

    def get_session_options(self) -> SessionOptions:
        """Return the options that the session was made with."""
        return self._options

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
        names = self._places
        if run_options is None and (not output_names or names.keys() >= {*output_names}):
            made = self._model.repeat(input_feed)
            if made is not None:
                return [made[names[n]] for n in output_names] if output_names else made
        found = [host_of(value) for value in self._values(output_names, input_feed, run_options)]
        self._model.keep_run(input_feed)
        return found

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

    def create_ortvalue_from_shape_and_type(
        self,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """Return a value of zeros on a device."""
        make = OrtValue.ortvalue_from_shape_and_type
        return make(shape, element_type, device_type, device_id, vendor_id)

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: Any,
        fetch_devices: Any = None,
    ) -> None:
        """Run on values in the order of their names; the outputs are appended to ``fetches``."""
        given = dict(zip(feed_names, feeds, strict=True))
        for value in self.run_with_ort_values(fetch_names, given, run_options):
            fetches.append(value)

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Do nothing: no device has options that change while a session lives."""

    def get_tuning_results(self) -> list[Any]:
        """Return none: what calor measured of its kernels is in its own cache."""
        return []

    def set_tuning_results(self, results: Any, *, error_on_invalid: bool = False) -> None:
        """Do nothing: calor measures its kernels by itself, and keeps what it finds."""

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Do nothing: compiled graphs are kept in a bounded cache and go by themselves."""

    def get_profiling_start_time_ns(self) -> int:
        """Return when the session began, in nanoseconds of ``time.perf_counter_ns``."""
        return self._began

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
        if self._options.cancelled:
            raise Fail("loading is cancelled: set_load_cancellation_flag(False) lets it be done")
        if not providers and self._options.has_providers():
            select = self._options.select
            providers = [*self._options.providers, *([] if select is None else [select()])]
        self._provider, self._device = chosen(providers, provider_options)
        is_path = isinstance(path_or_bytes, str | os.PathLike)
        with loading(str(Path(path_or_bytes)) if is_path else "bytes"):  # type: ignore[arg-type]
            imported = read(path_or_bytes, self._options.files)
            for name, value in self._options.initializers.items():
                if name not in imported.graph.constants:
                    raise InvalidArgument(f"the model has no initializer {name!r}")
                imported.graph.constants[name] = Constant.of(host_of(_plain(value)))
            self._model = Model(imported, self._device)
        self._places = {info.name: n for n, info in enumerate(self._model.outputs)}

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
