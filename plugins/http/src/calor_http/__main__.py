"""``python -m calor_http serve`` and ``python -m calor_http model``."""

import sys

from calor_http.allocator import give_back_freed_memory


def main(arguments: list[str]) -> int:
    """Run a command; each loads what it needs and no more."""
    give_back_freed_memory()
    if arguments[:1] == ["model"]:
        from calor_http.model.command import main as model

        return model(arguments[1:])
    from calor_http.server.serving import main as serve

    return serve(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
