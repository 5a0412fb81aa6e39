"""Fourier transforms of which a part is read, or whose operand is zero beyond a part.

Requirements: a transform along one axis leaves the others alone. So what is cut from its result
along another axis is cut before it, and zeros that are put around its operand along another axis
are put around its result. The transforms of several axes then work on the modes that a network
keeps, and a transform along the cut or padded axis itself stands beside that cut or padding, where
a fuser joins them. A transform over several axes becomes one for each of them where that leaves
less to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from calor.graph.graph import Builder, Graph, Node, prune
from calor.ops.base import TABLE, Scalar
from calor.specs import Spec, spec
from calor_kernel.contract.choices import is_size
from calor_kernel.contract.graph_links import links_of, uniform_of

Box = tuple[tuple[int, int], ...]
_FFT: Final = "fft"
# The ops that keep zeros and treat each element alike; the first operand is the one followed.
_ALIKE: Final = frozenset(("real", "imag", "conj"))


def narrow_spectra(graph: Graph) -> Graph:
    """Return the graph whose transforms work on what is read and what is not zero.

    The graph itself where it has no transform, or one of an unknown size.
    """
    transforms = [node for node in graph.nodes if node.op.name == _FFT]
    if not transforms or any(is_size(n) for node in transforms for n in _sizes(graph, node)):
        return graph
    made = _Writer(graph).written()
    return prune(made)


def _sizes(graph: Graph, node: Node) -> Iterable[int]:
    return (n for v in (*node.inputs, *node.outputs) for n in graph.specs[v].shape)


@dataclass(frozen=True, slots=True)
class _Part:
    """A value of the new graph that has a box of an old one.

    Beyond the box the old value is zero if ``zero``, else nothing reads it.
    """

    number: int
    box: Box
    zero: bool


class _Writer:
    """Writes the graph anew."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.links, self.builder = graph, links_of(graph), Builder()
        self.parts: dict[int, _Part] = {}
        self.numbers: dict[int, int] = {}
        self.toward = self._leading()
        self.needs = self._needed()

    def written(self) -> Graph:
        """Return the new graph."""
        graph, builder = self.graph, self.builder
        for value in graph.inputs:
            self.numbers[value] = builder.input(graph.specs[value], value in graph.host)
        for node in graph.nodes:
            if not self._in_part(node):
                known = {v: self.whole(v) for v in node.inputs}
                builder.take(graph, [node], known)
                self.numbers.update((v, known[v]) for v in node.outputs)
        return builder.build([self.whole(v) for v in graph.outputs])

    # What is known before.
    def _full(self, value: int) -> Box:
        return tuple((0, n) for n in self.graph.specs[value].shape)

    def _leading(self) -> set[int]:
        """Return the values that lead to a transform by paddings and factors alone."""
        found: set[int] = set()
        for node in reversed(self.graph.nodes):
            name = node.op.name
            leads = name == _FFT or bool(node.outputs and node.outputs[0] in found)
            if leads and (name in (_FFT, "pad", "concat", *_ALIKE) or self._factor(node)):
                found.update(node.inputs)
        return found

    def _factor(self, node: Node) -> int | None:
        """Return the operand that a node multiplies by one number, None if it does something else.

        It is the number's value of the graph.
        """
        if node.op.name != "mul":
            return None
        for place in (1, 0):
            if uniform_of(self.graph, node.inputs[place]) is not None:
                return node.inputs[1 - place]
        return None

    def _weighted(self, node: Node) -> tuple[int, int] | None:
        """Return the operand of a product whose other operand is a constant, spread; and that."""
        if node.op.name != "mul":
            return None
        for place in (1, 0):
            number = self.links.makers.get(node.inputs[place])
            spread = number is not None and self.graph.nodes[number].op.name == "expand"
            if spread and number is not None:
                behind = self.links.makers.get(self.graph.nodes[number].inputs[0])
                if behind is not None and self.graph.nodes[behind].op.name == "constant":
                    return node.inputs[1 - place], node.inputs[place]
        return None

    def _needed(self) -> dict[int, Box]:
        """Return the box of each value that others read."""
        graph, needs = self.graph, dict[int, Box]()

        def add(value: int, box: Box) -> None:
            known = needs.get(value)
            needs[value] = box if known is None else tuple(
                (min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, box, strict=True)
            )  # fmt: skip

        for value in graph.outputs:
            add(value, self._full(value))
        for node in reversed(graph.nodes):
            said = needs.get(node.outputs[0]) if len(node.outputs) == 1 else None
            followed = self._followed(node)
            for value in node.inputs:
                box = self._full(value)
                if said is not None and value == followed:
                    box = self._read(node, box, said)
                add(value, box)
        return needs

    def _followed(self, node: Node) -> int | None:
        """Return the operand of which a node reads only what its result's readers need."""
        if node.op.name in (_FFT, "slice", *_ALIKE):
            return node.inputs[0]
        weighted = self._weighted(node)
        return self._factor(node) if weighted is None else weighted[0]

    def _read(self, node: Node, full: Box, said: Box) -> Box:
        if node.op.name == "slice":
            steps, starts = node.attributes["steps"], node.attributes["starts"]
            if any(step != 1 for step in steps):
                return full
            return tuple((s + lo, s + hi) for s, (lo, hi) in zip(starts, said, strict=True))
        axes = node.attributes["axes"] if node.op.name == _FFT else ()
        return tuple(full[a] if a in axes else said[a] for a in range(len(full)))

    # Writing.
    def whole(self, value: int) -> int:
        """Return the new number of a value, which is padded from its part now if it has one."""
        if value not in self.numbers:
            part = self.parts[value]
            full = self._full(value)
            assert part.zero or part.box == full
            self.numbers[value] = self._padded(part.number, part.box, full)
        return self.numbers[value]

    def _padded(self, number: int, box: Box, full: Box) -> int:
        if box == full:
            return number
        like = self.builder.specs[number]
        value = Scalar(like.dtype.name, bytes(like.dtype.itemsize))
        attributes = {"value": value, "shape": (), "dtype": like.dtype}
        (zero,) = self.builder.add(TABLE["full"], [], attributes, [spec((), like.dtype)])
        low = tuple(a - lo for (a, _), (lo, _) in zip(box, full, strict=True))
        high = tuple(hi - b for (_, b), (_, hi) in zip(box, full, strict=True))
        made = spec(tuple(hi - lo for lo, hi in full), like.dtype)
        around = {"low": low, "high": high, "interior": (0,) * len(full)}
        (found,) = self.builder.add(TABLE["pad"], [number, zero], around, [made])
        return found

    def _cut(self, number: int, box: Box, wanted: Box) -> int:
        """Return a box of a value that has another one around it."""
        if box == wanted:
            return number
        starts = tuple(lo - a for (a, _), (lo, _) in zip(box, wanted, strict=True))
        stops = tuple(hi - a for (a, _), (_, hi) in zip(box, wanted, strict=True))
        like = self.builder.specs[number]
        made = spec(tuple(hi - lo for lo, hi in wanted), like.dtype)
        attributes = {"starts": starts, "stops": stops, "steps": (1,) * len(wanted)}
        (found,) = self.builder.add(TABLE["slice"], [number], attributes, [made])
        return found

    def _part_of(self, value: int) -> _Part:
        found = self.parts.get(value)
        return found or _Part(self.whole(value), self._full(value), False)

    def _in_part(self, node: Node) -> bool:
        """Write a node on a part of its operand; return whether that is possible and worth it."""
        if len(node.outputs) != 1:
            return False
        name, (out,) = node.op.name, node.outputs
        if name == "pad" and out in self.toward:
            return self._pad(node)
        if name == "concat" and out in self.toward:
            return self._concat(node)
        if name == _FFT:
            return self._transform(node)
        followed = self._followed(node)
        if followed is None or followed not in self.parts:
            return False
        part = self.parts[followed]
        if name == "slice":
            if part.zero or any(step != 1 for step in node.attributes["steps"]):
                return False
            # Of a slice that is cut itself only what its readers need is there.
            box = self.needs.get(out, self._full(out))
            wanted = self._read(node, self._full(followed), box)
            self._keep(out, _Part(self._cut(part.number, part.box, wanted), box, False))
            return True
        return self._alike(node, followed, part)

    def _alike(self, node: Node, followed: int, part: _Part) -> bool:
        """Write an elementwise node on a part."""
        (out,) = node.outputs
        shape = tuple(hi - lo for lo, hi in part.box)
        read = []
        for value in node.inputs:
            if value == followed:
                read.append(part.number)
                continue
            number = self.links.makers[value]
            source = self.graph.nodes[number]
            if source.op.name == "full":
                like = spec(shape, self.graph.specs[value].dtype)
                attributes = {**source.attributes, "shape": shape}
                read += self.builder.add(source.op, [], attributes, [like])
            else:
                read.append(self._cut(self.whole(value), self._full(value), part.box))
        made = self._like(out, shape)
        (number,) = self.builder.add(node.op, read, node.attributes, [made])
        self._keep(out, _Part(number, part.box, part.zero))
        return True

    def _like(self, value: int, shape: tuple[int, ...]) -> Spec:
        return spec(shape, self.graph.specs[value].dtype)

    def _keep(self, value: int, part: _Part) -> None:
        if part.box == self._full(value):
            self.numbers[value] = part.number
        else:
            self.parts[value] = part

    def _pad(self, node: Node) -> bool:
        x, zero = node.inputs
        low, high = node.attributes["low"], node.attributes["high"]
        if any(node.attributes["interior"]) or min((*low, *high), default=0) < 0:
            return False
        if uniform_of(self.graph, zero) != 0:
            return False
        return self._placed(node, x, low)

    def _placed(self, node: Node, x: int, low: Sequence[int]) -> bool:
        """Keep the operand of a padding as a part of its result."""
        part = self._part_of(x)
        if not part.zero and part.box != self._full(x):
            return False
        box = tuple((lo + a, hi + a) for (lo, hi), a in zip(part.box, low, strict=True))
        self._keep(node.outputs[0], _Part(part.number, box, True))
        return True

    def _concat(self, node: Node) -> bool:
        axis, sizes = node.attributes["axis"], self.graph.specs
        others = [v for v in node.inputs if uniform_of(self.graph, v) != 0]
        if len(others) != 1:
            return False
        place = node.inputs.index(others[0])
        before = sum(sizes[v].shape[axis] for v in node.inputs[:place])
        low = [before if a == axis else 0 for a in range(sizes[others[0]].ndim)]
        return self._placed(node, others[0], low)

    def _transform(self, node: Node) -> bool:
        (x,), (out,) = node.inputs, node.outputs
        part, axes = self._part_of(x), node.attributes["axes"]
        full_in, full = self._full(x), self._full(out)
        need = full if part.zero else self.needs.get(out, full)
        if part.box == full_in and need == full:
            return False
        kind = node.attributes["kind"]
        number, box = part.number, part.box
        if not part.zero:
            wanted = tuple(full_in[a] if a in axes else need[a] for a in range(len(full_in)))
            number, box = self._cut(number, box, wanted), wanted
        single = all(box[a] == full_in[a] for a in axes) and all(need[a] == full[a] for a in axes)
        # The half of a real transform's bins are those of the last axis, which is the first then.
        steps = [axes] if single else [(a,) for a in (axes[::-1] if kind == "r2c" else axes)]
        for some in steps:
            padded = tuple(full_in[a] if a in some else box[a] for a in range(len(box)))
            number, box = self._padded(number, box, padded), padded
            number, box = self._step(node, number, box, some)
            if not part.zero:
                cut = tuple(need[a] if a in some else box[a] for a in range(len(box)))
                number, box = self._cut(number, box, cut), cut
        self._keep(out, _Part(number, box, part.zero))
        return True

    def _step(self, node: Node, number: int, box: Box, some: Sequence[int]) -> tuple[int, Box]:
        """Add the transform along some of a node's axes."""
        said, full = node.attributes, self._full(node.outputs[0])
        last = said["axes"][-1]
        kind, length = said["kind"], self.builder.specs[number].shape[some[-1]]
        if last in some:
            length = said["length"]
        elif kind in ("r2c", "c2r"):
            kind = "forward" if kind == "r2c" else "inverse"
        made = tuple(full[a] if a in some else box[a] for a in range(len(box)))
        dtype = self.graph.specs[node.outputs[0]].dtype
        if kind == "inverse" and said["kind"] == "c2r":
            dtype = self.builder.specs[number].dtype
        like = spec(tuple(hi - lo for lo, hi in made), dtype)
        attributes = {"kind": kind, "axes": tuple(some), "length": length}
        (found,) = self.builder.add(node.op, [number], attributes, [like])
        return found, made
