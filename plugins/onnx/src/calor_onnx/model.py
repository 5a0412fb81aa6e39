"""An imported model: a callable on one device."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NoReturn

import numpy as np

import calor
from calor import Tensor
from calor.device_selection import as_device, current_device
from calor.transforms.hosted import HostCall
from calor_onnx.arrays import array_of
from calor_onnx.constants import Constant
from calor_onnx.constraints import check_types
from calor_onnx.errors import CopyError, InputError
from calor_onnx.execution import on_devices
from calor_onnx.graph import Graph, ValueInfo
from calor_onnx.passes import simplify as simplified
from calor_onnx.plans import Plans
from calor_onnx.reading import Imported, Source, read
from calor_onnx.repeating import Repeats
from calor_onnx.resolving import Resolver
from calor_onnx.scratch import Scratch
from calor_onnx.types import STRING, calor_type, name_of
from calor_onnx.values import Later, Narrow, dtype_of, to_host, upload


class Model:
    """An ONNX model on a device; :func:`calor_onnx.load` returns one.

    Parameters
    ----------
    imported : Imported
        The model as read from its file.
    device : Device or str, default None
        The device that runs it. None is the current device.
    simplify : bool, default True
        Simplify the graph and fold constants first.

    Attributes
    ----------
    inputs : tuple of ValueInfo
        Inputs that a call must give; those with an initializer are left out.
    outputs : tuple of ValueInfo
        The outputs.
    metadata : dict
        Producer, version, descriptions and custom entries of the file.
    opsets : dict
        Opset of each domain; "" is ai.onnx.
    device : Device
        The device of the weights and outputs.
    graph : Graph
        The graph that runs, after simplification.

    Raises
    ------
    UnsupportedOperatorsError
        If calor-onnx lacks operators of the model.
    TypeConstraintError
        If operands have types that ONNX does not allow.

    Examples
    --------
    >>> import calor_onnx, onnx
    >>> model = calor_onnx.load(onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     double (float[N] x) => (float[N] y) { y = Add (x, x) }'''))
    >>> [info.name for info in model.inputs], model.opsets
    (['x'], {'': 17})
    """

    def __init__(self, imported: Imported, device: Any = None, *, simplify: bool = True) -> None:
        import calor_onnx.operators  # noqa: F401 - it fills the registry

        self.device = current_device() if device is None else as_device(device)
        self.metadata = imported.metadata
        self.opsets = imported.opsets
        self.imported = imported
        read = imported.graph
        self._resolver = Resolver(imported.functions, imported.weights)
        self._resolver.resolve(read)
        check_types(read, imported.functions)
        self.inputs: tuple[ValueInfo, ...] = tuple(
            info for info in read.inputs if info.name not in read.constants
        )
        self.outputs: tuple[ValueInfo, ...] = tuple(read.outputs)
        self._infos = {info.name: info for info in read.inputs}
        self._names = [info.name for info in read.outputs]
        # A gradient names values of the graph as it was written.
        plain = any(node.domain == "ai.onnx.preview.training" for node in read.walk())
        self._arrange("whole" if simplify and not plain else "none")

    def _arrange(self, level: str) -> None:
        """Simplify graph and weights ("whole"), the graph only ("keep"), or nothing ("none")."""
        self._level = level
        self.graph: Graph = self.imported.graph
        if level != "none":
            self.graph = simplified(self.graph, self.imported.functions, fold=level == "whole")
            self._resolver.resolve(self.graph)
        self._plans = Plans(self.graph, self.device, self._settle())
        self._repeats = Repeats([info.name for info in self.inputs])

    def _settle(self) -> dict[int, Constant]:
        """Upload the large constants; return the small ones by identity."""
        graphs = [self.graph, *(g for node in self.graph.walk() for g in node.subgraphs())]
        constants = [c for g in graphs for c in g.constants.values()]
        scratch = Scratch()
        # The largest first: while a weight is copied, the pages of its file add to the memory.
        for constant in sorted(constants, key=lambda c: -c.size):
            if not constant.small and on_devices(constant) and constant.tensor is None:
                constant.held_by(upload(constant.array(scratch.room), self.device))
        return {id(c.array()): c for c in constants if c.small}

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        """Run the model.

        Parameters
        ----------
        *args : Tensor, array, number or list
            Inputs by position. Nested sequences become arrays, a list is also a sequence of
            tensors, and texts are arrays of objects.
        **inputs : Tensor, array, number or list
            Inputs by name.

        Returns
        -------
        Tensor or tuple
            The output, or a tuple if the model has several. Texts are host arrays, sequences are
            lists.

        Raises
        ------
        InputError
            If an input is missing, unknown or given twice, or its type or shape differs from the
            declared one.
        """
        if len(args) > len(self.inputs):
            raise InputError(f"{len(args)} inputs were given; the model takes {self._described()}")
        given = dict(zip((info.name for info in self.inputs), args, strict=False))
        for name in inputs:
            if name in given:
                raise InputError(
                    f"the input {name!r} is given by position and by name; give it once"
                )
        made = tuple(self.run({**given, **inputs}).values())
        return made[0] if len(made) == 1 else made

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model on inputs by name and return the outputs by name.

        Parameters
        ----------
        inputs : mapping of str
            Tensors, host arrays, numbers or nested sequences. A value for an initializer replaces
            it.

        Returns
        -------
        dict
            The outputs by name.

        Raises
        ------
        InputError
            If an input is missing or unknown, or its type or shape differs from the declared one.

        Examples
        --------
        >>> import calor_onnx, onnx
        >>> model = calor_onnx.load(onnx.parser.parse_model('''
        ...     <ir_version: 8, opset_import: ["" : 17]>
        ...     double (float[N] x) => (float[N] y) { y = Add (x, x) }'''))
        >>> model.run({"x": [1.0, 2.0]})["y"].tolist()
        [2.0, 4.0]
        """
        values: dict[str, Any] = {}
        for name in inputs:
            if name not in self._infos:
                raise InputError(f"the model has no input {name!r}; it takes {self._described()}")
        constants = self.imported.graph.constants
        if self._level != "none" and not constants.keys().isdisjoint(inputs):
            # Constants were folded with their values in the file; this call replaces some.
            self._arrange("none")
        for info in self._infos.values():
            if info.name in inputs:
                values[info.name] = self._taken(info, inputs[info.name])
            elif info.name not in constants:
                if not info.kind.startswith("optional"):
                    raise InputError(
                        f"the input {info.name!r} is missing; the model takes {self._described()}"
                    )
                values[info.name] = None
        outputs = self._plans.run(values)
        return {n: self._given(v) for n, v in zip(self._names, outputs, strict=True)}

    def repeat(self, inputs: Mapping[str, Any]) -> list[Any] | None:
        """Repeat a kept run with new arrays of the same types and shapes.

        Parameters
        ----------
        inputs : mapping of str
            Host arrays by name.

        Returns
        -------
        list of array or None
            The outputs as host arrays. None if no kept run fits; call :meth:`run` then.
        """
        return self._repeats.run(inputs)

    def keep_run(self, inputs: Mapping[str, Any]) -> None:
        """Keep the run that was just done, so that :meth:`repeat` can repeat it.

        Parameters
        ----------
        inputs : mapping of str
            The inputs of that run.
        """
        self._repeats.keep(inputs, self._hosted)

    def _hosted(self, inputs: Mapping[str, Any]) -> tuple[HostCall | None, set[str]]:
        values = {n: self._taken(self._infos[n], inputs[n]) for n in self._infos if n in inputs}
        return self._plans.hosted(values), self._plans.host_inputs

    def keep_weights(self) -> None:
        """Keep each weight as it is in the file; none is folded into another."""
        if self._level == "whole":
            self._arrange("keep")

    @property
    def reason(self) -> str | None:
        """The reason why the model is interpreted node by node, or None if it is compiled.

        It is known after the first run, because compilation finds it.
        """
        return self._plans.reason

    @property
    def remarks(self) -> tuple[str, ...]:
        """The reasons why branches and loops are not single operations of the compiled graph.

        They are known after the first run. Results do not change; the run takes longer.
        """
        return self._plans.remarks

    @property
    def plans(self) -> int:
        """The number of compiled graphs that are kept, one for each set of shapes."""
        return self._plans.count

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The floating constants of the graph by name, as tensors that each call reads.

        Access turns off the folding of weights, so that each acts under its own name.
        """
        self.keep_weights()
        run = self._plans
        made = {}
        for name, constant in self.graph.constants.items():
            known = calor_type(constant.dtype)
            if known is not None and known.is_floating and constant.size > 1:
                if constant.tensor is None:
                    constant.held_by(upload(constant.array(), run.device))
                made[name] = constant.tensor
        return made

    def _described(self) -> str:
        return ", ".join(
            f"{i.name}: {i.type_name}{'' if i.shape is None else list(i.shape)}"
            for i in self.inputs
        ) or "no inputs"  # fmt: skip

    def _taken(self, info: ValueInfo, value: Any) -> Any:
        """Return an input as a value of a run, checked against its declaration."""
        if value is None:
            if info.kind.startswith("optional"):
                return None
            raise InputError(
                f"the input {info.name!r} is None, the model takes {info.type_name}; only optional "
                f"inputs may be None"
            )
        if "sequence" in info.kind and isinstance(value, list | tuple):
            element = ValueInfo(info.name, info.dtype, info.shape)
            return [self._taken(element, item) for item in value]
        if isinstance(value, Narrow):
            return value
        if not isinstance(value, Tensor):
            value = array_of(info, value)
        known = dtype_of(value)
        if info.dtype is not None and known != info.dtype:
            raise InputError(
                f"the input {info.name!r} is {name_of(known)}, the model takes {info.type_name}; "
                f"convert it: x.astype({info.type_name!r})"
            )
        if info.kind == "tensor":
            self._check_shape(info, tuple(value.shape))
        if isinstance(value, Tensor):
            return value if value.device is self.device else calor.to_device(value, self.device)
        if known == STRING or info.name in self._plans.host_inputs:
            return value
        return upload(value, self.device, as_number=False)

    def _check_shape(self, info: ValueInfo, shape: tuple[int, ...]) -> None:
        declared = info.shape
        if declared is None:
            return
        fits = len(declared) == len(shape) and all(
            not isinstance(want, int) or want == size
            for want, size in zip(declared, shape, strict=True)
        )
        # Some exporters declare rank 0 for any shape, so one element of any rank fits it.
        if not fits and (declared or prod(shape) != 1):
            raise InputError(
                f"the input {info.name!r} has shape {list(shape)}, the model takes "
                f"{list(declared)}; reshape or pad it"
            )

    def _given(self, value: Any) -> Any:
        """Return an output for the caller: numbers as tensors, other host values unchanged."""
        if isinstance(value, list):
            return [self._given(item) for item in value]
        if isinstance(value, Narrow):
            return to_host(value)
        if isinstance(value, Later):
            return value.finish(to_host(value.tensor))
        if isinstance(value, np.ndarray) and calor_type(value.dtype) is not None:
            return upload(value, self.device)
        return value

    def __reduce__(self) -> NoReturn:
        raise CopyError(
            "a loaded model holds memory of its device, so it cannot be pickled or copied; load "
            "it again: calor_onnx.load(path, device)"
        )

    def __repr__(self) -> str:
        name = self.metadata["graph_name"] or "model"
        return f"<{name} on {self.device.name}: {len(self.graph.nodes)} nodes, {self._described()}>"


def load(source: Source, device: Any = None, *, simplify: bool = True) -> Model:
    """Load an ONNX model for a device.

    Parameters
    ----------
    source : path-like, bytes or ModelProto
        The model. A path also finds weights in files beside it.
    device : Device or str, default None
        The device that runs the model. None is the current device.
    simplify : bool, default True
        Simplify the graph and fold constants. False runs the nodes as the file has them.

    Returns
    -------
    Model
        The model, a callable. It is compiled at the first run, once for each set of shapes.

    Raises
    ------
    FileNotFoundError
        If `source` is the path of no file.
    ModelError
        If the source is not an ONNX model or breaks a rule of ONNX.
    UnsupportedOperatorsError
        If calor-onnx lacks operators of the model; the message lists all of them.
    TypeConstraintError
        If operands have types that ONNX does not allow; the message lists all of them.

    References
    ----------
    The ONNX intermediate representation and operator schemas,
    https://onnx.ai/onnx/repo-docs/IR.html.

    Examples
    --------
    >>> import calor, calor_onnx, onnx
    >>> proto = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     scale (float[N] x) => (float[N] y) {
    ...         two = Constant <value_float = 2.0> ()
    ...         y = Mul (x, two)
    ...     }''')
    >>> model = calor_onnx.load(proto)
    >>> model([1.0, 2.5]).tolist()
    [2.0, 5.0]
    """
    return Model(read(source), device, simplify=simplify)
