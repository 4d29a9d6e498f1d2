"""`%load_ext traceanalyzer`: then `%traceanalyzer PATH...` shows a report, and `%%traceanalyzer`
records a cell."""

import shlex
import tempfile
from typing import Any

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.collect.torch_profiler import record
from traceanalyzer.comparison.notebook import NotebookReport, shown_of


def register(shell: Any) -> None:
    """Make the magic known to an IPython shell."""

    def traceanalyzer(line: str, cell: str | None = None) -> NotebookReport | None:
        """Show the report of a recording (`%traceanalyzer trace.json.gz`), or record this cell with
        torch.profiler and show its report (`%%traceanalyzer`). The report is the magic's value."""
        try:
            return shown_of(shlex.split(line)) if cell is None else _of_cell(shell, line, cell)
        except TraceAnalyzerError as error:
            print(f"traceanalyzer: {error}")  # a notebook's way to say it
            return None

    shell.register_magic_function(traceanalyzer, "line_cell")


def _of_cell(shell: Any, line: str, cell: str) -> NotebookReport | None:
    """The report of what the cell does; options: `--stacks`, `--memory`. None where the cell
    fails."""
    options = {word.removeprefix("--"): True for word in shlex.split(line)}
    unknown = options.keys() - {"stacks", "memory"}
    if unknown:
        raise TraceAnalyzerError(
            f"%%traceanalyzer takes --stacks and --memory, not {', '.join(sorted(unknown))}"
        )
    with tempfile.TemporaryDirectory() as folder:
        with record(
            folder, wait=0, warmup=0, active=1, unprofiled_steps=0, light_steps=0, **options
        ):
            ran = shell.run_cell(cell)
        return shown_of([folder]) if ran.success else None
