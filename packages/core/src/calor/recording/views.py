"""What tensors that were cut out of others, or reshaped, know of these: so that no write is lost.

Requirements: tensors share no memory, and programs written for NumPy or PyTorch write through
slices: ``x[i][j] = v``, ``row = x[i]; row += 1``. Such a write must not vanish without a word. A
basic slice, a reshape and a permutation carry a note: a weak reference to the tensor they are of,
which costs a tuple and keeps nothing alive. A write looks at it and warns, or raises
(:class:`strict_views`). Inside :class:`shared_views` the note is strong, and a write reaches every
tensor of the same elements, as in NumPy.
"""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, NamedTuple, Self

from calor.config import SHARED, STRICT, WARN
from calor.errors import ViewError, ViewWarning
from calor.interning import remember
from calor.lines import user_frame, user_line
from calor.local import local
from calor.recording.writes import write
from calor.tensor.values import Handle

_ref = weakref.ref
# Dead members of a family are swept out when there are twice as many as lived at the last time.
_FEW: Final = 64


# Held while a write to a part of a tensor becomes a write to the tensor.
turns: Final = threading.RLock()


class Kind(NamedTuple):
    """A way to make a view: read it from its base, put it back, and say it in Python."""

    again: Callable[[Any, Any], Any]
    back: Callable[[Any, Any, Any], Any]
    text: Callable[[Any], str]


def _put(base: Any, part: Any, key: Any) -> Any:
    made = base.copy()
    made[key] = part
    return made


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axes.index(i) for i in range(len(axes)))


INDEX: Final = Kind(lambda base, key: base[key], _put, lambda key: f"[{_key_text(key)}]")
RESHAPE: Final = Kind(
    lambda base, shape: base.reshape(shape),
    lambda base, part, shape: part.reshape(base.shape),
    lambda shape: f".reshape({shape})",
)
PERMUTE: Final = Kind(
    lambda base, axes: base.permute_dims(axes),
    lambda base, part, axes: part.permute_dims(_inverse(axes)),
    lambda axes: f".permute_dims({axes})",
)


def note_view(made: Handle, base: Handle, kind: Kind, argument: Any) -> Any:
    """Note on a new tensor that it is a view of another; return it."""
    if local.views is SHARED:
        return _share(made, base, kind, argument)
    above = base._view
    made._view = (_ref(base), None if above is None else _living(above), kind, argument)
    return made


def _living(note: Any) -> Any:
    """Return the first note, from one upwards, whose base lives; None if there is none."""
    if type(note) is not tuple:
        return None
    while note is not None and note[0]() is None:
        note = note[1]
    return note


def before_write(handle: Handle, key: Any = None, depth: int = 2) -> None:
    """Say that a write to a view does not reach its base, if that lives.

    ``key`` is that of an assignment to a part of it; without one it is an operator in place, whose
    caller is ``depth`` frames above.
    """
    note = handle._view
    if type(note) is not tuple:
        return
    if _living(note) is None:
        handle._view = None
        return
    if key is None and _stored(sys._getframe(depth)):
        return
    message = _message(note, key)
    frame = user_frame()
    if local.views is STRICT:
        raise ViewError(f"{user_line()}: {message}")
    # One warning is enough; the view is a tensor of its own from here on.
    handle._view = None
    if frame is None:
        warnings.warn(message, ViewWarning, stacklevel=2)
        return
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    name = frame.f_globals.get("__name__")
    where = (frame.f_code.co_filename, frame.f_lineno, name, registry)
    warnings.warn_explicit(message, ViewWarning, *where)


# Places in code by whether the result is stored in a subscript; the code stays alive with its id.
_STORES: dict[tuple[int, int], tuple[bool, Any]] = {}
_BETWEEN: Final = frozenset(
    ("CACHE", "SWAP", "COPY", "ROT_TWO", "ROT_THREE", "EXTENDED_ARG", "NOP")
)


def _stored(frame: FrameType) -> bool:
    """Return whether what a frame computes is stored in a subscript next: ``x[i] += v``.

    Python reads ``x[i]``, changes that in place, and assigns it to ``x[i]``, so nothing is lost.
    The instructions say so; how often the slice is referred to does not in every interpreter.
    """
    code, place = frame.f_code, frame.f_lasti
    known = _STORES.get((id(code), place))
    if known is None:
        known = remember(_STORES, (id(code), place), (_stores_next(code, place), code))
    return known[0]


def _stores_next(code: Any, place: int) -> bool:
    import dis

    for instruction in dis.get_instructions(code):
        if instruction.offset > place and instruction.opname not in _BETWEEN:
            return instruction.opname in ("STORE_SUBSCR", "STORE_SLICE")
    return False


def _message(note: Any, key: Any) -> str:
    kind, argument = note[2], note[3]
    told = f"x{kind.text(argument)}"
    instead = f"{told}.copy()"
    joined = _joined(argument, key) if kind is INDEX and key is not None else None
    if note[0]() is None:
        told, instead = "a part of a tensor", "a copy of the part"
        way = "index that tensor itself: x[i, j] += …"
    elif joined is not None:
        way = f"write x[{_key_text(joined)}] = …"
    elif kind is INDEX:
        way = f"write {told} += …"
    else:
        way = "write x[i, j] += … on the tensor itself"
    return (
        f"a write to {told} does not change x, since tensors share no memory; {way}, or begin with "
        f"{instead} if x is to stay as it is. `with calor.shared_views():` shares as NumPy does"
    )


def _joined(first: Any, second: Any) -> tuple[Any, ...] | None:
    """Return the key that does what two keys do one after the other; None if none is plain."""
    inner = list(second) if type(second) is tuple else [second]
    if not all(_is_number(item) or isinstance(item, slice) for item in inner):
        return None
    items = []
    for item in first if type(first) is tuple else (first,):
        if item == slice(None):
            items.append(inner.pop(0) if inner else item)
        elif _is_number(item):
            items.append(item)
        else:
            return None
    return (*items, *inner)


def _is_number(item: Any) -> bool:
    return hasattr(item, "__index__") and not getattr(item, "shape", ())


def _key_text(key: Any) -> str:
    if type(key) is tuple:
        return ", ".join(map(_key_text, key)) or "()"
    if isinstance(key, slice):
        ends = ["" if part is None else str(part) for part in (key.start, key.stop)]
        step = "" if key.step is None else f":{key.step}"
        return ":".join(ends) + step
    if key is Ellipsis:
        return "..."
    return str(key) if key is None or _is_number(key) else "i"


class Family:
    """The note of a tensor that has views which share its elements."""

    __slots__ = ("__weakref__", "members", "room", "root")

    def __init__(self, root: Handle) -> None:
        # Weak, since the root has this note: its views hold it.
        self.root = _ref(root)
        self.members: list[weakref.ref[Any]] = []
        self.room = _FEW

    def add(self, member: Handle) -> None:
        """Take a view into the family."""
        if len(self.members) >= self.room:
            self.members = [known for known in self.members if known() is not None]
            self.room = max(_FEW, 2 * len(self.members))
        self.members.append(_ref(member))


class Shared:
    """The note of a view that shares its elements: its root, and the way from there."""

    __slots__ = ("family", "root", "way")

    def __init__(self, root: Handle, family: Family, way: tuple[tuple[Kind, Any], ...]) -> None:
        self.root = root
        self.family = family
        self.way = way


def _share(made: Any, base: Any, kind: Kind, argument: Any) -> Any:
    note = base._view
    if type(note) is Shared:
        root, family, way = note.root, note.family, note.way
    else:
        if type(note) is not Family:
            base._view = note = Family(base)
        root, family, way = base, note, ()
    made._view = Shared(root, family, (*way, (kind, argument)))
    family.add(made)
    return made


def carried(handle: Any, new: Any) -> bool:
    """Write to the base of a view that shares its elements; else say what is lost.

    Returns
    -------
    bool
        Whether the view has its new value already.
    """
    note = handle._view
    if type(note) is not Shared:
        before_write(handle, depth=4)
        return False
    before, local.views = local.views, WARN
    try:
        # Threads may write to different parts of one tensor.
        with turns:
            bases = [note.root]
            for kind, argument in note.way[:-1]:
                bases.append(kind.again(bases[-1], argument))
            for base, (kind, argument) in zip(reversed(bases), reversed(note.way), strict=True):
                new = kind.back(base, new, argument)
            root: Any = note.root
            root._rebind(new)
    finally:
        local.views = before
    return True


def refresh(handle: Any) -> None:
    """Give the views of a tensor that was written, which share its elements, their new values."""
    family = handle._view
    if type(family) is not Family:
        return
    before, local.views = local.views, WARN
    try:
        for known in family.members:
            member = known()
            if member is not None:
                value = handle
                for kind, argument in member._view.way:
                    value = kind.again(value, argument)
                write(member, value)
    finally:
        local.views = before


class _views:
    """Context that sets what a write to a view does."""

    mode: str

    def __init__(self) -> None:
        self.before: list[Any] = []

    def __enter__(self) -> Self:
        self.before.append(local.views)
        local.views = self.mode
        return self

    def __exit__(self, *error: object) -> None:
        local.views = self.before.pop()


class strict_views(_views):
    """Context in which a write to a slice or reshape raises, if the tensor it is of lives.

    Tensors share no memory: a write to ``x[0]`` or to ``x.reshape(-1)`` leaves ``x`` as it is.
    Outside this context such a write warns. ``CALOR_VIEWS=strict`` raises in a whole process.

    Raises
    ------
    ViewError
        At the write. It names the line and how to write it.

    See Also
    --------
    shared_views : Let such writes reach the tensor.

    Examples
    --------
    >>> import calor
    >>> x = calor.zeros((2, 2))
    >>> with calor.strict_views():
    ...     try:
    ...         x[0][1] = 5.0
    ...     except calor.errors.ViewError as error:
    ...         print(str(error).partition("; ")[2][:17])
    write x[0, 1] = …
    """

    mode = STRICT


class shared_views(_views):
    """Context in which slices and reshapes share their elements, as in NumPy and PyTorch.

    A write to a view that was made in the context reaches the tensor it is of and that tensor's
    other views, and a write to the tensor reaches its views, also after the context. It is for
    programs that were written so: scikit-learn's and SciPy's. ``CALOR_VIEWS=shared`` holds for a
    whole process.

    See Also
    --------
    strict_views : Raise at such writes.

    Notes
    -----
    Views are results of integers and slices as keys, and of ``reshape``, ``flatten``, ``squeeze``,
    ``expand_dims``, ``split``, ``unstack`` and permutations of axes. A 0-d element (``x[0]`` of one
    axis) is none. ``np.asarray(x)`` can be written to, and what is written reaches the tensor when
    the array and all views of it are gone. NumPy's functions that calor does not have compute on
    such arrays. Each write records an operation for each
    living view of the tensor, so a program of calor's own is quicker without.

    Examples
    --------
    >>> import calor
    >>> x = calor.zeros((2, 2))
    >>> with calor.shared_views():
    ...     x[0][1] = 5.0
    >>> x.tolist()
    [[0.0, 5.0], [0.0, 0.0]]
    """

    mode = SHARED
