"""A model that was imported: a callable that runs on one device."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NoReturn

import numpy as np

import calor
from calor import Tensor
from calor.backends.selection import as_device, current_device
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
    """An ONNX model on a device; made by :func:`calor_onnx.load`.

    ``inputs`` and ``outputs`` describe what it takes and gives; ``metadata`` is what the file says
    of itself; ``graph`` is the imported graph.
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
        """Simplify the graph, its weights included or as far as they keep, or leave it as it is."""
        self._level = level
        self.graph: Graph = self.imported.graph
        if level != "none":
            self.graph = simplified(self.graph, self.imported.functions, fold=level == "whole")
            self._resolver.resolve(self.graph)
        self._plans = Plans(self.graph, self.device, self._settle())
        self._repeats = Repeats([info.name for info in self.inputs])

    def _settle(self) -> dict[int, Constant]:
        """Bring the large constants to the device; return the small ones by identity."""
        graphs = [self.graph, *(g for node in self.graph.walk() for g in node.subgraphs())]
        constants = [c for g in graphs for c in g.constants.values()]
        scratch = Scratch()
        # The largest first: the pages of the file that one is copied from come on top of it.
        for constant in sorted(constants, key=lambda c: -c.size):
            if not constant.small and on_devices(constant) and constant.tensor is None:
                constant.held_by(upload(constant.array(scratch.room), self.device))
        return {id(c.array()): c for c in constants if c.small}

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        """Return the output for inputs by position or name; a tuple where there are several.

        Inputs are tensors, host arrays, numbers or nested sequences; sequences of tensors are
        lists, texts are arrays of objects. Raises InputError for what does not fit.
        """
        if len(args) > len(self.inputs):
            raise InputError(f"the model has {self._described()}; {len(args)} inputs were given")
        given = dict(zip((info.name for info in self.inputs), args, strict=False))
        for name in inputs:
            if name in given:
                raise InputError(f"the input {name!r} is given by position and by name")
        made = tuple(self.run({**given, **inputs}).values())
        return made[0] if len(made) == 1 else made

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs by name for inputs by name.

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
                raise InputError(f"the model has no input {name!r}; it has {self._described()}")
        constants = self.imported.graph.constants
        if self._level != "none" and not constants.keys().isdisjoint(inputs):
            # Constants were taken for what the file says; this call says otherwise.
            self._arrange("none")
        for info in self._infos.values():
            if info.name in inputs:
                values[info.name] = self._taken(info, inputs[info.name])
            elif info.name not in constants:
                if not info.kind.startswith("optional"):
                    raise InputError(
                        f"the input {info.name!r} is missing; the model has {self._described()}"
                    )
                values[info.name] = None
        outputs = self._plans.run(values)
        return {n: self._given(v) for n, v in zip(self._names, outputs, strict=True)}

    def repeat(self, inputs: Mapping[str, Any]) -> list[Any] | None:
        """Return the outputs as host arrays, for arrays like those of a run that was kept.

        None where nothing was done, and :meth:`run` is the way.
        """
        return self._repeats.run(inputs)

    def keep_run(self, inputs: Mapping[str, Any]) -> None:
        """Let runs like this one, which was just done, be repeated."""
        self._repeats.keep(inputs, self._hosted)

    def _hosted(self, inputs: Mapping[str, Any]) -> tuple[HostCall | None, set[str]]:
        values = {n: self._taken(self._infos[n], inputs[n]) for n in self._infos if n in inputs}
        return self._plans.hosted(values), self._plans.host_inputs

    def keep_weights(self) -> None:
        """Have each weight in the graph as the file has it, none folded into another."""
        if self._level == "whole":
            self._arrange("keep")

    @property
    def reason(self) -> str | None:
        """Why the model is interpreted node by node; None while it is compiled.

        Known after the first run, as it is compiling that tells.
        """
        return self._plans.reason

    @property
    def remarks(self) -> tuple[str, ...]:
        """Why branches and loops are not one operation of a compiled graph, for each that is not.

        Known after the first run; the answers are the same, in more time.
        """
        return self._plans.remarks

    @property
    def plans(self) -> int:
        """How many compiled graphs are kept, one for each set of shapes."""
        return self._plans.count

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The floating constants of the graph as tensors, which the model reads at each call.

        Once they were asked for no weight is folded into another, so that each acts as it is named.
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
        """Return an input as a value of a run; InputError where it is not what is declared."""
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
        # Files in the wild declare no axes where they mean any: a lone scalar says nothing.
        if not fits and (declared or prod(shape) != 1):
            raise InputError(
                f"the input {info.name!r} has shape {list(shape)}, the model takes {list(declared)}"
            )

    def _given(self, value: Any) -> Any:
        """Return an output as the caller gets it: numbers as tensors, what no device has as is."""
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
            "a loaded model holds memory of its device and cannot be pickled or copied; load it "
            "again: calor_onnx.load(path, device)"
        )

    def __repr__(self) -> str:
        name = self.metadata["graph_name"] or "model"
        return f"<{name} on {self.device.name}: {len(self.graph.nodes)} nodes, {self._described()}>"


def load(source: Source, device: Any = None, *, simplify: bool = True) -> Model:
    """Return a model from a path, bytes or a ModelProto, ready to run on a device.

    Without ``simplify`` its graph is run as it is in the file, node by node as they are written.
    Raises ModelError for what is no ONNX model; UnsupportedOperatorsError where operators are
    missing and TypeConstraintError where operands have types that ONNX refuses, with all of them.

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
