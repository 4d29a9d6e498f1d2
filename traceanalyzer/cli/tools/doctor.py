"""`traceanalyzer doctor`."""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.cli.options import command

SELF_TEST_SECONDS = 120  # the self-test takes about ten; a cold file system many more


@command("doctor")
@click.option(
    "--self-test/--no-self-test",
    default=True,
    show_default=True,
    help="Record and analyse a small run.",
)
def doctor(self_test: bool) -> None:
    """Say what is installed and what can be recorded here, and test it."""
    from traceanalyzer.collect.host.capabilities import checks

    for check in checks():
        mark = f"{'ok' if check.ok else '--':4}"
        click.echo(click.wrap_text(f"{check.name}: {check.said}", 80, mark, " " * len(mark)))
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
