"""IOBinding: inputs and outputs that stay on a device between runs."""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor import Tensor
from calor_onnx.session.faults import InvalidArgument, running
from calor_onnx.session.values import OrtValue, device_named, host_of
from calor_onnx.values import upload


class IOBinding:
    """Inputs and outputs of a session's runs, on devices.

    Parameters
    ----------
    session : InferenceSession
        The session to run.

    Examples
    --------
    >>> import calor_onnx, numpy as np, onnx
    >>> proto = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     double (float[N] x) => (float[N] y) { y = Add (x, x) }''')
    >>> session = calor_onnx.InferenceSession(proto.SerializeToString())
    >>> binding = session.io_binding()
    >>> binding.bind_cpu_input("x", np.ones(2, np.float32))
    >>> binding.bind_output("y")
    >>> session.run_with_iobinding(binding)
    >>> binding.copy_outputs_to_cpu()
    [array([2., 2.], dtype=float32)]
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        # Output name → the host array or OrtValue to fill, or None.
        self._outputs: dict[str, Any] = {}
        self._made: dict[str, Any] = {}

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Bind an input to a host array, which is uploaded now.

        Parameters
        ----------
        name : str
            Name of the input.
        arr_on_cpu : array
            The array.

        Raises
        ------
        DTypeError
            If calor has no such dtype.
        """
        host = np.asarray(arr_on_cpu)
        text = host.dtype.kind in "SUO"
        device = self._session.calor_model.device
        self._inputs[name] = host.astype(np.object_) if text else upload(host, device)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to an OrtValue, which each run reads.

        Parameters
        ----------
        name : str
            Name of the input.
        ortvalue : OrtValue
            The value.
        """
        self._inputs[name] = ortvalue

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Any,
        buffer_ptr: int,
    ) -> None:
        """Bind an input to host memory by its address; the memory is uploaded now.

        Parameters
        ----------
        name : str
            Name of the input.
        device_type : str
            Must be "cpu".
        device_id : int
            Ignored.
        element_type : dtype
            NumPy dtype of the elements.
        shape : sequence of int
            Shape of the array.
        buffer_ptr : int
            Address of the elements, in C order.

        Raises
        ------
        InvalidArgument
            If `device_type` is not "cpu"; bind an OrtValue then.
        DTypeError
            If calor has no such dtype.
        """
        host = _at(buffer_ptr, element_type, shape, device_type)
        self._inputs[name] = upload(host, self._session.calor_model.device)

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Any = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Bind an output to a device, or to host memory by its address.

        Parameters
        ----------
        name : str
            Name of the output.
        device_type : str, default "cpu"
            Kind of device. With an address it must be "cpu".
        device_id : int, default 0
            Number of the device.
        element_type : dtype, default None
            NumPy dtype of the memory at `buffer_ptr`.
        shape : sequence of int, default None
            Shape of the memory at `buffer_ptr`.
        buffer_ptr : int, default None
            Address of memory that each run fills. None leaves the output on the session's device.

        Raises
        ------
        InvalidArgument
            If memory of a device is given by its address; bind an OrtValue then.
        DeviceError
            If there is no such device.
        """
        if buffer_ptr is not None:
            self._outputs[name] = _at(buffer_ptr, element_type, shape, device_type)
        else:
            device_named(device_type, device_id)
            self._outputs[name] = None

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an output to an OrtValue, which holds the output after each run.

        Parameters
        ----------
        name : str
            Name of the output.
        ortvalue : OrtValue
            The value.
        """
        self._outputs[name] = ortvalue

    def run(self) -> None:
        """Run the session on the bound inputs.

        Raises
        ------
        InvalidArgument
            If the model has no bound output of that name, or an input does not fit.
        """
        session = self._session
        given = {n: v.value if isinstance(v, OrtValue) else v for n, v in self._inputs.items()}
        with running():
            made = session.calor_model.run(given)
        names = list(self._outputs) or list(made)
        unknown = [name for name in names if name not in made]
        if unknown:
            raise InvalidArgument(
                f"Invalid output name: {unknown[0]}; the model has {', '.join(made)}"
            )
        self._made = {name: made[name] for name in names}
        for name, target in self._outputs.items():
            if isinstance(target, OrtValue):
                target.value = made[name]
            elif target is not None:
                target[...] = host_of(made[name])

    def get_outputs(self) -> list[OrtValue]:
        """Return the outputs of the last run.

        Returns
        -------
        list of OrtValue
            The outputs in the order in which they were bound, or all of them.
        """
        return [OrtValue(value) for value in self._made.values()]

    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        """Return the outputs of the last run as a list.

        Returns
        -------
        list of OrtValue
            The same as :meth:`get_outputs`.
        """
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Return the outputs of the last run as host arrays.

        Returns
        -------
        list of array
            The outputs.
        """
        return [host_of(value) for value in self._made.values()]

    def synchronize_inputs(self) -> None:
        """Wait until the inputs are on the device."""
        calor.synchronize(self._session.calor_model.device)

    def synchronize_outputs(self) -> None:
        """Wait until the outputs are computed."""
        calor.eval(*[v for v in self._made.values() if isinstance(v, Tensor)])
        calor.synchronize(self._session.calor_model.device)

    def clear_binding_inputs(self) -> None:
        """Remove all bound inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Remove all bound outputs and the outputs of the last run."""
        self._outputs.clear()
        self._made.clear()


def _at(address: int, element_type: Any, shape: Any, device_type: str) -> Any:
    if str(device_type).lower() != "cpu":
        raise InvalidArgument(
            f"memory of {device_type!r} cannot be bound by its address; wrap it with "
            f"OrtValue.from_dlpack and bind that"
        )
    import ctypes

    dtype = np.dtype(element_type)
    count = int(np.prod(shape, dtype=np.int64))
    buffer = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(buffer, dtype, count).reshape(tuple(shape))
