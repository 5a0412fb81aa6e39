"""The live screen: a table of the epochs so far that grows upwards, and a bar below it."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from calor_train.run import Run
from calor_train.screens import LOOK, Screen, Status, epoch_texts


def usable() -> bool:
    """Return whether standard output is a terminal that can show a live screen."""
    console = Console()
    return (console.is_terminal and not console.is_dumb_terminal) or console.is_jupyter


class LiveScreen(Screen):
    """Finished epochs are printed once and scroll; only the bar is drawn again and again."""

    interval = LOOK

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        # Drawn on new numbers, not by a thread that would compete with training.
        self.live = Live(console=self.console, auto_refresh=False, transient=True)
        self.widths: dict[str, int] = {}

    def begin(self, learner: Run) -> None:
        """Start drawing."""
        kind = type(learner.model).__name__
        count = sum(p.size for p in learner.optimizer.params)
        self.console.print(
            Text.assemble(
                ("Training ", "bold"),
                (kind, "bold cyan"),
                f"  {count:,} parameters  {type(learner.optimizer).__name__}  "
                f"on {learner.device.name}",
            )
        )
        self.live.start()

    def progress(self, status: Status) -> None:
        """Draw the bar and the numbers of the moment."""
        self.live.update(self._draw(status), refresh=True)

    def _draw(self, status: Status) -> RenderableType:
        total = float(status.batches) if status.batches else None
        bar = Table.grid(padding=(0, 1), expand=False)
        style = "cyan" if status.phase == "training" else "magenta"
        bar.add_row(
            Text(f"epoch {status.epoch}/{status.epochs}", style="bold"),
            ProgressBar(total=total, completed=status.batch, width=30, complete_style=style),
            Text(f"{status.batch}/{status.batches or '?'} {status.phase}", style="dim"),
        )
        numbers = Text("   ".join(status.parts()), style=style)
        return Group(bar, numbers)

    def epoch(self, learner: Run, left: float) -> None:
        """Print the row of a finished epoch, under the names of its columns the first time."""
        found = epoch_texts(learner)
        if not self.widths:
            self.widths = {name: max(len(name), len(text), 7) for name, text in found.items()}
            for name in ("samples/s", "lr", "time"):
                # A line that wraps breaks the table; the bar shows the throughput too.
                if sum(self.widths.values()) + 2 * len(self.widths) > self.console.width:
                    del self.widths[name]
            head = "  ".join(name.rjust(width) for name, width in self.widths.items())
            self.console.print(Text(head, style="dim"), soft_wrap=True)
        line = "  ".join(found.get(name, "").rjust(width) for name, width in self.widths.items())
        self.console.print(Text(line), soft_wrap=True)

    def end(self, text: str) -> None:
        """Remove the bar and print how it ended."""
        self.live.stop()
        self.console.print(Text(text, style="bold"))
