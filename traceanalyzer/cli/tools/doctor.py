"""`traceanalyzer doctor`."""

import importlib.util
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import click

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.cli.options import help_all_option, help_of

SELF_TEST_SECONDS = 120  # the self-test takes about ten; a cold file system many more


ABOUT_THE_TOOL = ("cache", "completion", "schema")
"""Commands below it, each in its module."""


class Tools(click.Group):
    """Commands about the tool itself, each imported on use."""

    def list_commands(self, _: click.Context) -> list[str]:
        """Their names."""
        return list(ABOUT_THE_TOOL)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        """The command of that name."""
        if name not in ABOUT_THE_TOOL:
            return None
        found: click.Command = getattr(import_module(f"traceanalyzer.cli.tools.{name}"), name)
        return found


@click.group("doctor", cls=Tools, invoke_without_command=True, **help_of("doctor"))
@click.option(
    "--self-test/--no-self-test",
    default=True,
    show_default=True,
    help="Record and analyse a small run.",
)
@help_all_option
@click.pass_context
def doctor(context: click.Context, self_test: bool) -> None:
    """Say what is installed and what can be recorded here, and test it."""
    if context.invoked_subcommand is not None:
        return
    from traceanalyzer.collect.host.capabilities import checks

    for check in checks():
        mark = f"{'ok' if check.ok else '--':4}"
        click.echo(click.wrap_text(f"{check.name}: {check.finding}", 80, mark, " " * len(mark)))
    if not self_test:
        return
    if importlib.util.find_spec("torch") is None:
        click.echo(f"{'--':4}self-test: left out, it needs torch")
        return
    with tempfile.TemporaryDirectory() as folder:
        click.echo(f"{'ok':4}self-test: {_self_test(Path(folder) / 'capture')}")


def _self_test(folder: Path) -> str:
    """Record and analyse; what came out. Raises TraceAnalyzerError."""
    import traceanalyzer
    from traceanalyzer.collect import self_test

    words = ("collect", "torch", "-o", str(folder), "--", sys.executable, self_test.__file__)
    code = "from traceanalyzer.cli import main; main()"
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, timeout=SELF_TEST_SECONDS, check=False
    )
    if done.returncode or not list(folder.glob("trace.*")):
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise TraceAnalyzerError(
            f"the self-test recorded nothing (status {done.returncode}): {lines[-1]}"
        )
    run = traceanalyzer.load(folder)
    trace = run.traces[0]
    recorded = (
        f"recorded {len(trace.host_ranges):,} host ranges and {len(trace.device_ops):,} device ops"
    )
    if not len(trace.device_ops):
        return f"{recorded}; without a GPU there is no device time to analyse"
    return f"{recorded}; {traceanalyzer.analyze(run).summary.headline}"
