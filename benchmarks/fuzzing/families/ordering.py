"""Running sums, sorting, top-k and arg-max, as samplers, metrics and beams use them."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Work
from fuzzing.families._common import VOCABULARIES, library, one, sizes

_FORMS = {
    "cumsum": 4,
    "topk": 4,
    "sort": 2,
    "argmax": 3,
    "top_p": 2,
    "cumsum_columns": 1,
    "sort_columns": 1,
}


def _draw(random: Random) -> Parameters:
    rows = one(random, {1: 3, 7: 1, 8: 1, 32: 2, 128: 1, 512: 1})
    columns = one(random, {**VOCABULARIES, 128: 1, 1024: 1, 2048: 2, 100: 1, 8732: 1})
    return {"form": one(random, _FORMS), "shape": (rows, columns), "k": random.choice((1, 5, 50))}


def _ordering(p: Parameters) -> Work:
    """Return an operation on rows; top_p: the running sums of sorted probabilities."""
    form, shape, k = sizes(p, "form", "shape", "k")
    rows, columns = shape
    k = min(k, columns)
    operand, made, checked = (Operand(shape),), shape, "near"
    if form == "topk":
        made, checked = (rows, k), "near"
    if form == "argmax":
        made, checked = (rows,), "picks"

    def ours(x: Any) -> Any:
        calor = library("calor")
        return {
            "cumsum": lambda: calor.cumulative_sum(x, axis=1),
            "cumsum_columns": lambda: calor.cumulative_sum(x, axis=0),
            "topk": lambda: calor.topk(x, k)[0],
            "sort": lambda: calor.sort(x, axis=-1, descending=True),
            "sort_columns": lambda: calor.sort(x, axis=0),
            "argmax": lambda: calor.argmax(x, axis=-1),
            "top_p": lambda: calor.cumulative_sum(
                calor.softmax(calor.sort(x, axis=-1, descending=True), axis=-1), axis=-1
            ),
        }[form]()

    def theirs(x: Any) -> Any:
        torch = library("torch")
        return {
            "cumsum": lambda: torch.cumsum(x, 1),
            "cumsum_columns": lambda: torch.cumsum(x, 0),
            "topk": lambda: torch.topk(x, k).values,
            "sort": lambda: torch.sort(x, dim=-1, descending=True).values,
            "sort_columns": lambda: torch.sort(x, dim=0).values,
            "argmax": lambda: torch.argmax(x, dim=-1),
            "top_p": lambda: torch.cumsum(
                torch.softmax(torch.sort(x, dim=-1, descending=True).values, -1), -1
            ),
        }[form]()

    depth = columns if "cumsum" in form or form == "top_p" else 1
    return Work(operand, ours, theirs, made, 4.0 * prod(shape), depth, checked)


FAMILIES = (Family("ordering", 4, _draw, _ordering, ("shape",), gradient=0.0),)
