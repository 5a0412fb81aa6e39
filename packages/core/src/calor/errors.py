"""Typed errors. Each says what was wrong and what to do next, and names the op where one is known.

An error of ours is also the built-in that users of NumPy and PyTorch expect (a shape error is a
``ValueError``), so existing ``except`` clauses keep working.
"""

from __future__ import annotations

from numpy.linalg import LinAlgError

from calor.config import config


class CalorError(Exception):
    """Root of every error that calor raises on purpose.

    ``module`` is the path of the module (calor.nn) in whose forward pass it was raised, if any.
    """

    module: str | None = None

    def __str__(self) -> str:
        message = super().__str__()
        return message if self.module is None else f"{message}; in module {self.module}"


class _OfOp(CalorError):
    """What an op refused or failed at: ``op`` names it where it is known, ``line`` who called it.

    The line is the user's. It is kept under CALOR_DEBUG=1, and always for ops that may fail for the
    contents of their operands; for these ``call`` is what the user called.
    """

    call: str | None = None

    def __init__(
        self, message: object = "", *, op: str | None = None, line: str | None = None
    ) -> None:
        super().__init__(message)
        self.op = op
        self.line = line

    def __str__(self) -> str:
        message = str(self.args[0])
        parts = [message]
        if self.op is not None and not message.startswith((f"{self.op}:", f"{self.op} ")):
            by = f" of {self.call}" if self.call not in (None, self.op) else ""
            parts.append(f"in op {self.op!r}{by}")
        if self.line is not None:
            parts.append(f"recorded at {self.line}")
        if self.module is not None:
            parts.append(f"in module {self.module}")
        return "; ".join(parts)

    def name_op(self, op: str) -> None:
        """Record which op raised, unless an op inside it is known already.

        Parameters
        ----------
        op : str
            The op's name.
        """
        if self.op is not None:
            return
        self.op = op
        if config.debug:
            from calor.lines import user_line

            self.line = user_line()


class ShapeError(_OfOp, ValueError):
    """Shapes, axes or sizes do not fit the operation. It is a ValueError."""


class AxisError(ShapeError, IndexError):
    """An axis does not exist in a shape. It is an IndexError too."""


class DTypeError(_OfOp, TypeError):
    """A dtype does not fit the operation, or dtypes have no common one. It is a TypeError."""


class ArgumentError(_OfOp, ValueError):
    """An argument has a value that the operation does not accept. It is a ValueError."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of a kind that is not accepted. It is a ValueError and a TypeError."""


class IndexingError(CalorError, IndexError):
    """An index is out of range, or of a kind that cannot index a tensor. It is an IndexError."""


class GradientError(CalorError, RuntimeError):
    """A gradient was asked for where there is none; the message says why."""


class TraceError(CalorError, RuntimeError):
    """A function being traced did something that needs concrete values, such as ``bool(x)``."""


class GraphError(CalorError, ValueError):
    """A graph or a graph file breaks a rule of the graph's grammar."""


class FormatError(CalorError, ValueError):
    """A file does not follow its format: it is truncated, damaged, or another kind of file."""


class ExchangeError(CalorError, BufferError, ValueError):
    """Memory cannot be exchanged with another library as asked, for example without a copy.

    The array API standard asks for a BufferError in some cases and a ValueError in others; it is
    both.
    """


class PluginError(CalorError, ImportError):
    """A plugin is missing, failed to load, or was made for another version of the plugin API."""


class ExtensionError(CalorError, AttributeError):
    """What another distribution brings is not installed. ``hasattr`` returns False then."""


class DeviceError(_OfOp, RuntimeError):
    """A device could not do what it was asked to; ``op`` names the operation if it is known."""


class OutOfMemoryError(DeviceError, MemoryError):
    """The device has less free memory than a plan or upload needs. Live tensors are intact."""


class MemoryLimitError(OutOfMemoryError):
    """A program needs more memory than its limit, whatever is recomputed.

    Parameters
    ----------
    message : str, optional
        What is needed, and what to do.
    smallest : int, optional
        The smallest limit, in bytes, that would do.
    """

    def __init__(self, message: object = "", *, smallest: int = 0) -> None:
        super().__init__(message)
        self.smallest = smallest


class CompileError(DeviceError):
    """The device's compiler refused a graph or a kernel."""


class DeviceLostError(DeviceError):
    """The device no longer answers; its buffers are lost."""


class MembersDifferError(DeviceError):
    """The members of a group of devices have different values where one was asked for."""


class UnsupportedError(DeviceError, NotImplementedError):
    """The device declares that it cannot run an op or a dtype; the message gives its reason.

    ``refused`` holds (op name, names of its dtypes, reason) for each node of a graph that no device
    runs; it is empty if a method was refused, not a graph.
    """

    refused: tuple[tuple[str, tuple[str, ...], str], ...] = ()


class ElementIndexError(DeviceError, IndexingError):
    """An index in a tensor is out of range; found when the elements were computed.

    Parameters
    ----------
    message : str, optional
        What is out of range, and of what.
    op : str, optional
        The op that met it.
    line : str, optional
        The user's line.
    index : int, optional
        The index: one of them if several are out of range.
    axis : int, optional
        The axis that it counts along.
    size : int, optional
        The size of that axis.
    """

    def __init__(
        self,
        message: object = "",
        *,
        op: str | None = None,
        line: str | None = None,
        index: int | None = None,
        axis: int | None = None,
        size: int | None = None,
    ) -> None:
        super().__init__(message, op=op, line=line)
        self.index = index
        self.axis = axis
        self.size = size


class LinearAlgebraError(DeviceError, LinAlgError):
    """A matrix has no inverse, factors or eigenvalues; found when the elements were computed."""


class ProtocolError(CalorError, RuntimeError):
    """A backend, or its caller, broke a rule of the backend protocol.

    Parameters
    ----------
    message : str
        What happened.
    rule : str
        The name of the rule.
    """

    def __init__(self, message: str, *, rule: str) -> None:
        super().__init__(message)
        self.rule = rule

    def __reduce__(self) -> tuple[object, ...]:
        return (_protocol_error, (self.args[0], self.rule))


def _protocol_error(message: str, rule: str) -> ProtocolError:
    return ProtocolError(message, rule=rule)


class ViewError(CalorError, RuntimeError):
    """In `calor.strict_views`, a slice or reshape is written while the tensor it is of lives."""


class ViewWarning(UserWarning):
    """A slice or reshape is written while the tensor it is of lives, which is not changed."""


class NonFiniteError(_OfOp, FloatingPointError):
    """An op made a NaN or an infinity within `calor.debug_nans`. It is a FloatingPointError."""


class NonFiniteWarning(UserWarning):
    """A quantity became NaN or infinite during training."""
