"""InferenceSession: a loaded model with ONNX Runtime's interface."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from calor.device_selection import as_device
from calor_onnx.constants import Constant
from calor_onnx.errors import CopyError
from calor_onnx.model import Model
from calor_onnx.reading import is_proto, read
from calor_onnx.session.describing import Describing
from calor_onnx.session.faults import Fail, InvalidArgument, loading, running
from calor_onnx.session.options import RunOptions, SessionOptions
from calor_onnx.session.providers import CPU, chosen
from calor_onnx.session.values import OrtValue, host_of


class Session(Describing):
    """The base class of sessions; ONNX Runtime has one of this name."""

    def __init__(self) -> None:
        self._options = SessionOptions()
        self._provider = CPU
        self._provider_options: dict[str, Any] = {}
        # Index of each output by name.
        self._places: dict[str, int] = {}
        self._began = time.perf_counter_ns()

    def get_session_options(self) -> SessionOptions:
        """Return the options of the session.

        Returns
        -------
        SessionOptions
            The options given to the session, or the defaults.
        """
        return self._options

    def io_binding(self) -> Any:
        """Return a new IOBinding, which keeps values on the device between runs.

        Returns
        -------
        IOBinding
            The binding.
        """
        from calor_onnx.session.binding import IOBinding

        return IOBinding(self)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Run the model and return outputs as host arrays.

        Parameters
        ----------
        output_names : sequence of str or None
            Outputs to return. None or an empty sequence returns all.
        input_feed : mapping of str
            Host arrays or OrtValues by input name; a list is a sequence.
        run_options : RunOptions, default None
            Options of this run.

        Returns
        -------
        list of array
            The outputs in the order of the names.

        Raises
        ------
        ValueError
            If an input is missing.
        InvalidArgument
            If a name is unknown, or the type or shape of an input differs from the declared one.
        RuntimeException
            If an operator fails.
        Fail
            If ``run_options.terminate`` is set.
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
        """Run the model and return outputs that stay on the device.

        Parameters
        ----------
        output_names : sequence of str or None
            Outputs to return. None or an empty sequence returns all.
        input_dict_ort_values : mapping of str
            OrtValues by input name.
        run_options : RunOptions, default None
            Options of this run.

        Returns
        -------
        list of OrtValue
            The outputs in the order of the names.

        Raises
        ------
        ValueError
            If an input is missing.
        InvalidArgument
            If a name is unknown, or the type or shape of an input differs from the declared one.
        """
        made = self._values(output_names, input_dict_ort_values, run_options)
        return [OrtValue(value) for value in made]

    def run_with_iobinding(self, iobinding: Any, run_options: RunOptions | None = None) -> None:
        """Run the model on bound inputs; the binding then holds the outputs.

        Parameters
        ----------
        iobinding : IOBinding
            The bound inputs and outputs.
        run_options : RunOptions, default None
            Options of this run.

        Raises
        ------
        InvalidArgument
            If the model has no bound output of that name, or an input does not fit.
        """
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
        """Run the model, then call a function with the outputs. The call returns after the run.

        Parameters
        ----------
        output_names : sequence of str or None
            Outputs to return. None or an empty sequence returns all.
        input_feed : mapping of str
            Host arrays or OrtValues by input name.
        callback : callable
            Called as ``callback(outputs, user_data, error)``; `error` is an empty string on
            success, else the message, and `outputs` is empty.
        user_data : object
            Passed to `callback`.
        run_options : RunOptions, default None
            Options of this run.
        """
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
                f"Invalid output name: {error.args[0]}; the model has {', '.join(outputs)}"
            ) from None

    def __reduce__(self) -> NoReturn:
        raise CopyError(
            "a session holds memory of its device, so it cannot be pickled or copied; create it "
            "again: calor_onnx.InferenceSession(path)"
        )

    def enable_fallback(self) -> None:
        """Do nothing: a session never changes its device."""

    def disable_fallback(self) -> None:
        """Do nothing: a session never changes its device."""

    def create_ortvalue_from_shape_and_type(
        self,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """Return a value of zeros on a device.

        Parameters
        ----------
        shape : sequence of int
            Shape of the value.
        element_type : dtype or int
            NumPy dtype, or number of an ONNX element type.
        device_type : str, default "cpu"
            Kind of device.
        device_id : int, default 0
            Number of the device.
        vendor_id : int, default -1
            Ignored.

        Returns
        -------
        OrtValue
            The value.
        """
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
        """Run the model on values in the order of their names.

        Parameters
        ----------
        run_options : RunOptions or None
            Options of this run.
        feed_names : sequence of str
            Names of the inputs.
        feeds : sequence of OrtValue
            The inputs.
        fetch_names : sequence of str
            Names of the outputs.
        fetches : list
            The outputs are appended to it.
        fetch_devices : object, default None
            Ignored.
        """
        given = dict(zip(feed_names, feeds, strict=True))
        for value in self.run_with_ort_values(fetch_names, given, run_options):
            fetches.append(value)

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Do nothing: no device has options that change during a session.

        Parameters
        ----------
        options : mapping of str
            Ignored.
        """

    def get_tuning_results(self) -> list[Any]:
        """Return an empty list: calor keeps measurements of kernels in its own cache.

        Returns
        -------
        list
            An empty list.
        """
        return []

    def set_tuning_results(self, results: Any, *, error_on_invalid: bool = False) -> None:
        """Do nothing: calor measures its kernels itself.

        Parameters
        ----------
        results : object
            Ignored.
        error_on_invalid : bool, default False
            Ignored.
        """

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Do nothing: compiled graphs are in a cache of limited size.

        Parameters
        ----------
        graph_annotation_id : int, default 0
            Ignored.
        """

    def get_profiling_start_time_ns(self) -> int:
        """Return the time at which the session was created.

        Returns
        -------
        int
            Nanoseconds of ``time.perf_counter_ns``.
        """
        return self._began

    def end_profiling(self) -> str:
        """Return an empty string: no profile is written.

        Returns
        -------
        str
            An empty string.
        """
        return ""


class InferenceSession(Session):  # numpydoc ignore=RS01
    """A loaded model on the device of the first available provider.

    Parameters
    ----------
    path_or_bytes : path-like, bytes or ModelProto
        The model.
    sess_options : SessionOptions, default None
        Options of the session.
    providers : sequence of str or tuple, default None
        Names of providers in order of preference, or pairs of a name and options. The name of a
        calor device is a provider too. None takes the options' providers, then the current device.
    provider_options : sequence of dict, default None
        Options of the providers; "device_id" is the number of the device.
    **kwargs : object
        Ignored.

    Raises
    ------
    TypeError
        If `path_or_bytes` is none of these types.
    NoSuchFile
        If the file does not exist.
    InvalidProtobuf
        If the bytes are not an ONNX model.
    InvalidGraph
        If the graph breaks a rule of ONNX.
    NotImplemented
        If calor-onnx lacks operators of the model.
    InvalidArgument
        If the options replace an initializer that the model does not have.
    Fail
        If loading was cancelled, or fails for another reason.

    Examples
    --------
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
        plain = isinstance(path_or_bytes, str | os.PathLike | bytes | bytearray)
        if not plain and not is_proto(path_or_bytes):
            raise TypeError(
                f"Unable to load from type '{type(path_or_bytes)}'; pass a path, bytes or a "
                f"ModelProto"
            )
        self._options = sess_options or SessionOptions()
        if self._options.cancelled:
            raise Fail("loading is cancelled; allow it with set_load_cancellation_flag(False)")
        if not providers and self._options.has_providers():
            select = self._options.select
            providers = [*self._options.providers, *([] if select is None else [select()])]
        self._provider, self._device = chosen(providers, provider_options)
        is_path = isinstance(path_or_bytes, str | os.PathLike)
        with loading(str(Path(path_or_bytes)) if is_path else "bytes"):
            imported = read(path_or_bytes, self._options.files)
            for name, value in self._options.initializers.items():
                if name not in imported.graph.constants:
                    raise InvalidArgument(
                        f"the options replace {name!r}, and the model has no such initializer; "
                        f"check the name"
                    )
                imported.graph.constants[name] = Constant.of(host_of(_plain(value)))
            self._model = Model(imported, self._device)
        self._places = {info.name: n for n, info in enumerate(self._model.outputs)}

    def set_providers(
        self, providers: Sequence[Any] | None = None, provider_options: Sequence[Any] | None = None
    ) -> None:
        """Move the model to the device of the first available provider.

        Parameters
        ----------
        providers : sequence of str or tuple, default None
            Names of providers in order of preference, or pairs of a name and options. None is the
            current device.
        provider_options : sequence of dict, default None
            Options of the providers.
        """
        provider, device = chosen(providers, provider_options)
        if device is not self._model.device:
            imported = self._model.imported
            inner = [g for node in imported.graph.walk() for g in node.subgraphs()]
            for graph in (imported.graph, *inner):
                # Weights that the old device holds are downloaded.
                graph.constants = {n: Constant.of(c.array()) for n, c in graph.constants.items()}
            self._model = Model(imported, as_device(device))
        self._provider = provider

    @property
    def calor_model(self) -> Model:
        """The calor model of the session."""
        return self._model

    @property
    def device(self) -> Any:
        """The calor device that runs the model."""
        return self._model.device


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, OrtValue) else value
