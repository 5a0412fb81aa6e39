"""Query heads of a key head as its queries, so that a tile of rows has those of all these heads.

Requirements: a decoding step has one query and many heads; by heads, a tile is nearly empty, and
each of them reads the keys again. Folding moves nothing: it is another view of the operands and the
results. Rows that are causal, or that do not lie at one distance, stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from calor.specs import Spec
from calor_kernel.contract.choices import spec_of
from calor_kernel.contract.work import Request, View, row_major
from calor_kernel.library.attention.problem import Attention


@dataclass(frozen=True, slots=True)
class _Fold:
    """Heads and queries before, and the key heads whose ``rows`` these become."""

    heads: int
    queries: int
    key_heads: int

    @property
    def rows(self) -> int:
        """The rows of a key head."""
        return self.heads // self.key_heads * self.queries

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a dense array of batches, heads and queries first."""
        return (shape[0], self.key_heads, self.rows, *shape[3:])

    def view(self, view: View) -> View | None:
        """Return a view of batches, heads and queries, None if rows have several distances.

        Axes of one element repeat.
        """
        pairs = zip(view.shape[1:3], view.strides[1:3], strict=True)
        head, row = (step if n > 1 else 0 for n, step in pairs)
        step = head if self.queries == 1 else row
        if self.queries != 1 and head != self.queries * row:
            return None
        strides = view.strides[0], self.heads // self.key_heads * head, step, *view.strides[3:]
        return View(self.shape(view.shape), strides, view.dtype, view.offset)

    def dense(self, spec: Spec) -> Spec:
        """Return the spec of a dense result."""
        return spec_of(self.shape(spec.shape), spec.dtype)


def folded(problem: Attention, request: Request) -> Request:
    """Return the request with the query heads of a key head as its queries, if they lie so."""
    p, first = problem, problem.query.number
    if p.group == 1 or p.causal or (any(p.turned) and p.queries != 1):
        return request
    fold = _Fold(p.heads, p.queries, p.key_heads)
    made: list[View | None] = []
    for number, view in enumerate(request.inputs):
        if number in (first + 1, first + 2):
            made.append(view)
        elif len(view.shape) == 3:
            shape = fold.shape(view.shape)
            made.append(View(shape, row_major(shape), view.dtype, view.offset))
        else:
            made.append(fold.view(view))
    views = tuple(view for view in made if view is not None)
    if len(views) < len(made):
        return request
    results = list(request.outputs)
    # Of a gradient the results after the first are those of keys and values.
    for number in range(1 if first else len(results)):
        results[number] = fold.dense(results[number])
    attributes = {name: said for name, said in request.attributes.items() if name != "orders"}
    return replace(request, inputs=views, outputs=tuple(results), attributes=attributes)
