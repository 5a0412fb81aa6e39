"""``calor.vmap``: a function of one element as a function of a whole axis of them.

Requirements: the function is traced once, at the shapes of one element, and its graph is batched;
so the result is what one writes with batch axes by hand, and costs nothing under `calor.jit`.
"""

from __future__ import annotations

import contextlib
import functools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from calor import tree
from calor.device_selection import current_device
from calor.errors import ArgumentError, AxisError, TraceError
from calor.functions.creation import asarray
from calor.recording.writes import write
from calor.tensor.tensor import wrap
from calor.tensor.values import Handle
from calor.transforms.batching import flows as _flows
from calor.transforms.batching.calls import call
from calor.transforms.batching.graphs import Batching, Item, Kind
from calor.transforms.batching.movement import moved
from calor.transforms.grad import with_leaves
from calor.transforms.state import Stateful, named_leaves
from calor.transforms.traced import get, put

# Imported for what it registers: the rules of control flow.
_REGISTERED = _flows
_RANDOMNESS = ("error", "different", "same")


def vmap(
    function: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    *,
    axis_size: int | None = None,
    randomness: str = "error",
) -> Callable[..., Any]:
    """Return a function that applies ``function`` to all elements of an axis at once.

    Parameters
    ----------
    function : callable
        A function of tensors, pytrees and modules, written for one element of the axis. It returns
        a tensor, or a pytree of tensors and numbers.
    in_axes : int, None, or a pytree of them, optional
        Which axis of each positional argument is mapped; None where an argument is the same for all
        elements. One entry holds for all leaves below it: an integer or None for all arguments, or
        a tuple with an entry for each, which may be a pytree itself. By default the first axis of
        every argument. A module that is mapped has parameters with that axis.
    out_axes : int, None, or a pytree of them, optional
        Where the axis is in each output; None for an output that does not depend on mapped
        arguments. By default first.
    axis_size : int, optional
        The size of the axis; needed if no argument is mapped.
    randomness : {"error", "different", "same"}, optional
        What random numbers of a generator are: different for each element, the same for all, or an
        error. Numbers drawn at a key follow the key: they differ if it is mapped. By default an
        error.

    Returns
    -------
    callable
        It takes the arguments of ``function``, with mapped axes, and returns its result with the
        axis at ``out_axes``. Keyword arguments are passed on, not mapped.

    Raises
    ------
    ArgumentError
        If ``randomness`` is another string. At the call, if ``in_axes`` or ``out_axes`` do not have
        the structure of arguments or outputs, if mapped axes differ in size, or if nothing is
        mapped and there is no ``axis_size``.
    AxisError
        At the call, if an argument or output does not have the axis.
    TraceError
        At the call, if ``function`` reads the value of a tensor, makes a shape that depends on
        elements, draws from a generator without ``randomness``, changes a tensor from outside by
        values that differ along the axis, or calls a collective on mapped values.

    Notes
    -----
    The function is traced once at the shapes of one element, and each op of its graph is batched:
    a product becomes a batched product, a convolution with mapped weights a grouped one, attention
    one with a larger batch. A `calor.cond` whose predicate is mapped computes both branches; a
    `calor.while_loop` runs until all elements are done. A tensor that the function takes from
    outside is the same for all elements. `calor.grad`, `calor.jvp`, `calor.jit` and `vmap` itself
    can stand outside and inside.

    Examples
    --------
    >>> import calor
    >>> rows, vector = calor.asarray([[1.0, 2.0], [3.0, 4.0]]), calor.asarray([1.0, 10.0])
    >>> calor.vmap(lambda x, y: (x * y).sum(), in_axes=(0, None))(rows, vector).tolist()
    [21.0, 43.0]
    >>> calor.vmap(calor.grad(lambda x: (x ** 3).sum()))(rows).tolist()
    [[3.0, 12.0], [27.0, 48.0]]
    """
    if randomness not in _RANDOMNESS:
        raise ArgumentError(
            f"vmap: randomness is {randomness!r}; pass one of {', '.join(_RANDOMNESS)}"
        )
    name = f"calor.vmap of {getattr(function, '__name__', type(function).__name__)}"

    @functools.wraps(function, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        mapped = _Arguments(args, in_axes)
        size = mapped.size(axis_size)
        device = mapped.device or current_device()
        batching = Batching(name, size, randomness, device)
        items = [Item(moved(t, axis, 0), Kind.MAPPED) for t, axis in mapped.pairs()]
        changed: list[int] = []
        replaced: dict[int, Handle] = {}

        def one(*placeholders: Any) -> Any:
            with mapped.holding(placeholders) as (arguments, stand_ins):
                before = [t._value for t in stand_ins]
                result = function(*arguments, **kwargs)
                replaced.update(mapped.replaced(name))
                after = [replaced.get(i, t)._value for i, t in enumerate(stand_ins)]
            changed[:] = [i for i, v in enumerate(after) if v is not before[i]]
            return result, [wrap(after[i]) for i in changed]

        found, items = call(batching, one, items)
        structure = found.children[0]
        to = prefix(out_axes, structure, "out_axes", "the result")
        made = [_placed(batching, item, axis) for item, axis in zip(items, to, strict=False)]
        for i, item in zip(changed, items[structure.count :], strict=True):
            tensor, axis = mapped.pairs()[i]
            value = moved(batching.lead(item), 0, axis)
            if i in replaced:
                mapped.assign(i, value)
            else:
                write(tensor, value)
        return tree.unflatten(structure, made)

    return wrapped


def _placed(batching: Batching, item: Item, axis: int | None) -> Any:
    """Return an output with the mapped axis where it is wanted."""
    if axis is None:
        if item.kind is Kind.MAPPED:
            raise ArgumentError(
                f"{batching.name}: out_axes is None for an output {item.spec} that depends on "
                f"mapped arguments; give it an axis"
            )
        return item.tensor
    return moved(batching.lead(item), 0, _index(axis, item.spec.ndim + 1, "an output"))


class _Arguments:
    """The arguments of a call, and which axis of each leaf is mapped.

    Tensors of plain containers are replaced by others for the function. Those of modules keep
    their handle, which holds another value meanwhile, so that what the module does reaches it.
    """

    def __init__(self, args: tuple[Any, ...], in_axes: Any) -> None:
        self.args = args
        self.leaves: list[Any] = []
        self.axes: list[int | None] = []
        # Where objects hold leaves: the owner and the attribute, key or place in a list.
        self.spots: list[tuple[Any, Any] | None] = []
        each = in_axes if isinstance(in_axes, tuple | list) else [in_axes] * len(args)
        if len(each) != len(args):
            raise ArgumentError(
                f"vmap: in_axes has {len(each)} entries and the call {len(args)} positional "
                f"arguments; give one entry for each"
            )
        for number, (argument, axes) in enumerate(zip(args, each, strict=True)):
            self._add(argument, axes, f"argument {number}")
        self._agree()
        self.places = [i for i, axis in enumerate(self.axes) if axis is not None]
        self.device = next(
            (self.leaves[i].device for i in self.places if isinstance(self.leaves[i], Handle)),
            None,
        )
        for i in self.places:
            if not isinstance(self.leaves[i], Handle):
                self.leaves[i] = asarray(self.leaves[i], device=self.device)

    def _add(self, argument: Any, axes: Any, name: str) -> None:
        flat, structure = tree.flatten(argument)
        for leaf, axis, spot in zip(
            flat, prefix(axes, structure, "in_axes", name), _spots(argument), strict=True
        ):
            if axis is not None and spot is not None and not isinstance(leaf, Handle):
                # A number of a module, such as a rate, is one for all elements.
                axis = None
            self.leaves.append(leaf)
            self.spots.append(spot)
            self.axes.append(None if axis is None else _axis_of(leaf, axis, name))

    def _agree(self) -> None:
        """Refuse a tensor of objects that would be mapped along two axes, for it has one value."""
        along: dict[int, int | None] = {}
        for leaf, spot, axis in zip(self.leaves, self.spots, self.axes, strict=True):
            if spot is None or not isinstance(leaf, Handle):
                continue
            if (first := along.setdefault(id(leaf), axis)) != axis:
                raise ArgumentError(
                    f"vmap: {spot[1]!r} of a {type(spot[0]).__name__} is given more than once, "
                    f"with {first} and {axis} in in_axes; give it one of them, or a copy"
                )

    def pairs(self) -> list[tuple[Any, int]]:
        """Return the mapped tensors and their axes."""
        return [(self.leaves[i], axis) for i, axis in enumerate(self.axes) if axis is not None]

    def size(self, given: int | None) -> int:
        """Return the size of the mapped axis."""
        sizes: set[int] = {t.shape[axis] for t, axis in self.pairs()}
        if given is not None:
            sizes.add(given)
        if len(sizes) != 1:
            raise ArgumentError(
                f"vmap: mapped axes have sizes {sorted(sizes)}; they must agree with each other "
                f"and with axis_size"
                if sizes
                else "vmap: no argument is mapped (in_axes is None), so give axis_size="
            )
        return sizes.pop()

    @contextlib.contextmanager
    def holding(self, placeholders: Sequence[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
        """Give the arguments with placeholders for mapped tensors, and the tensors they are in."""
        leaves, held = list(self.leaves), []
        try:
            for i, t in zip(self.places, placeholders, strict=True):
                if self.spots[i] is not None:
                    held.append((leaves[i], leaves[i]._value))
                    leaves[i]._value = t._value
                else:
                    leaves[i] = t
            given = iter(leaves)
            yield [with_leaves(a, given) for a in self.args], [leaves[i] for i in self.places]
        finally:
            for tensor, value in reversed(held):
                tensor._value = value
            for leaf, spot in zip(self.leaves, self.spots, strict=True):
                if spot is not None and get(*spot) is not leaf:
                    put(*spot, leaf)

    def replaced(self, name: str) -> dict[int, Handle]:
        """Return the tensors that objects hold now in place of mapped ones, by number of those."""
        found = {}
        for i, (leaf, spot) in enumerate(zip(self.leaves, self.spots, strict=True)):
            if spot is None or (now := get(*spot)) is leaf or not isinstance(now, Handle):
                continue
            if self.axes[i] is None:
                raise TraceError(
                    f"{name} replaced {spot[1]!r} of a {type(spot[0]).__name__} that is the same "
                    f"for all elements; map the object too (in_axes), or return the new tensor"
                )
            found[self.places.index(i)] = now
        return found

    def assign(self, number: int, value: Any) -> None:
        """Give an object a tensor in place of a mapped one."""
        spot = self.spots[self.places[number]]
        assert spot is not None
        owner, key = spot
        if isinstance(owner, Stateful):
            setattr(owner, key, value)
        else:
            owner[key] = value


def _spots(argument: Any) -> list[tuple[Any, Any] | None]:
    """Return for each leaf where a module or another Stateful object holds it, if one does."""
    if isinstance(argument, Stateful):
        return [(owner, key) for _, owner, key, _ in named_leaves(argument)]
    if type(argument) in (list, tuple):
        return [spot for part in argument for spot in _spots(part)]
    if type(argument) is dict:
        return [spot for part in argument.values() for spot in _spots(part)]
    return [None] * tree.flatten(argument)[1].count


def _axis_of(leaf: Any, axis: int, name: str) -> int:
    if not hasattr(leaf, "shape"):
        raise ArgumentError(
            f"vmap: {name} has a {type(leaf).__name__}, which has no axis to map; give it None in "
            f"in_axes, such as in_axes=(0, None)"
        )
    return _index(axis, len(leaf.shape), f"{name} of shape {tuple(leaf.shape)}")


def _index(axis: int, ndim: int, name: str) -> int:
    if not -ndim <= axis < ndim:
        raise AxisError(f"vmap: {name} has no axis {axis} to map; it has {ndim} axes")
    return axis % ndim


def prefix(axes: Any, structure: tree.TreeDef, what: str, name: str) -> list[int | None]:
    """Return one axis for each leaf of a structure from a pytree that may end above its leaves.

    Parameters
    ----------
    axes : int, None, or a pytree of them
        The axes.
    structure : TreeDef
        The structure.
    what : str
        What the axes are called in errors.
    name : str
        What the structure belongs to.

    Returns
    -------
    list of int or None
        The axes.

    Raises
    ------
    ArgumentError
        If the structures do not fit.
    """
    if axes is None or (isinstance(axes, int) and not isinstance(axes, bool)):
        return [axes] * structure.count
    parts: list[Any] | None = None
    if isinstance(axes, dict) and structure.kind in (dict, OrderedDict):
        keys: Any = structure.aux
        parts = [axes[k] for k in keys] if set(axes) == set(keys) else None
    elif isinstance(axes, tuple | list) and structure.kind is not None:
        parts = list(axes) if issubclass(structure.kind, tuple | list) else None
    if parts is None or len(parts) != len(structure.children):
        raise ArgumentError(
            f"vmap: {what} has {axes!r} for {name}, whose structure is {structure}; give integers "
            f"or None, or containers of its structure"
        )
    pairs = zip(parts, structure.children, strict=True)
    return [axis for part, child in pairs for axis in prefix(part, child, what, name)]
