"""The generated parts of documentation pages: what lies between a begin and an end comment."""

from collections.abc import Mapping

END = "<!-- end -->"


def begin(command: str) -> str:
    """The comment that a generated part begins with; it names the command that writes it."""
    return f"<!-- begin: {command} -->"


def replaced(text: str, parts: Mapping[str, str]) -> str:
    """A page with each generated part replaced; `parts` maps the begin comments to new texts."""
    for comment, part in parts.items():
        before, found, rest = text.partition(comment)
        if found:
            text = f"{before}{comment}\n\n{part}\n\n{END}{rest.partition(END)[2]}"
    return text
