"""The tables of names in the pages for people who change over: `python tools/name_tables.py torch`.

They are made from the table that the errors of calor are made from.
"""

import sys
from collections.abc import Iterator, Sequence

from calor.migration import ADVICE, KEYWORDS, MASKS, METHODS, NAMES, Row, mask_advice

FRAMEWORKS = {"torch": "PyTorch", "numpy": "NumPy", "jax": "JAX"}
# Whose keyword arguments these are, by the letters of the other tables.
WHOSE_KEYWORDS = {
    "dim": "t",
    "dims": "t",
    "keepdim": "t",
    "start_dim": "t",
    "end_dim": "t",
    "unbiased": "t",
    "ddof": "nj",
    "a_min": "n",
    "a_max": "n",
    "size": "t",
    "newshape": "n",
    "diagonal": "t",
    "is_causal": "t",
    "src_is_causal": "t",
    "tgt_is_causal": "t",
    "memory_is_causal": "t",
    "dropout_p": "t",
    "shifts": "t",
    "kind": "n",
}
WHOSE_ADVICE = {
    "inplace": "t", "size_average": "t", "reduce": "t",
    "dtype": "t", "memory_format": "t", "non_blocking": "t", "enable_gqa": "t", "where": "nj",
    "initial": "nj", "order": "n", "overwrite_input": "n",
}  # fmt: skip


def markdown(framework: str) -> str:
    """The tables of one framework's names as Markdown; KeyError for an unknown framework."""
    title, letter = FRAMEWORKS[framework], framework[0]
    parts = [
        table((title, "calor"), [(full(r, letter), r.ours) for r in of(NAMES, letter)]),
        table(
            (f"{title}, on a tensor", "calor"),
            [(f"x.{r.theirs}", r.ours) for r in of(METHODS, letter)],
        ),
    ]
    keywords = [(f"{k}=", f"{KEYWORDS[k][0]}=") for k, w in WHOSE_KEYWORDS.items() if letter in w]
    masks = MASKS if letter == "t" else {}
    advice = [
        # Attention itself takes numbers to add; modules that are made of it do not.
        (f"{k}=", str(mask_advice(k, [ours[0], "bias"] if ours == ("mask",) else ours[:1])))
        for k, ours in masks.items()
    ]
    advice += [(f"{k}=", ADVICE[k]) for k, w in WHOSE_ADVICE.items() if letter in w]
    if keywords:
        parts.append(table((f"{title}, keyword", "calor"), keywords))
    if advice:
        parts.append(table((f"{title}, keyword without a counterpart", "calor"), advice))
    return "\n\n".join(parts)


def of(rows: Sequence[Row], letter: str) -> Iterator[Row]:
    return (row for row in rows if letter in row.whose)


def full(row: Row, letter: str) -> str:
    """A name as the users of its framework write it."""
    if row.full:
        return row.full
    if letter == "j":
        # What NumPy has too is in jax.numpy.
        return f"{'jnp' if 'n' in row.whose else 'jax'}.{row.theirs}"
    return f"{'torch' if letter == 't' else 'np'}.{row.theirs}"


def table(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "| --- | --- |"]
    lines += [f"| `{theirs}` | `{ours}` |" for theirs, ours in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown(sys.argv[1]))
