"""Runs the command to be recorded. It gets the session, group, descriptors and signals that it
would have had alone, and its exit status is ours."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.collect.host import environment, nvml
from traceanalyzer.collect.host.ranks import own_file
from traceanalyzer.collect.passed_on import Signals, children_heard
from traceanalyzer.collect.plan import VARIABLE, CapturePlan

ATTACH = "TRACEANALYZER_ATTACH"
"""Environment variable with the module that attaches the processes; `collect.attach` without it."""
INJECTED = Path(__file__).parent / "injected"
QUIET = {"KINETO_LOG_LEVEL": "6"}  # else libkineto writes `USDT:...` to standard error
COMPILED = "compile"
"""Folder of the capture for torch.compile's log: a file a rank, with code, paths and shapes."""
CAPTURED = ("trace.rank*", "timings.rank*", "nsys.*", "ncu.*", "rocprofv3.*")


class CannotRecordError(TraceAnalyzerError):
    """The recording cannot be started; the message says why and what to do."""


def as_command(words: Sequence[str]) -> list[str]:
    """The command line; `script.py ...` and `-m module ...` are given to this Python."""
    is_script = words[0].endswith(".py") and not os.access(words[0], os.X_OK)
    if is_script or words[0] == "-m":
        return [sys.executable, *words]
    if shutil.which(words[0]) is None:
        raise CannotRecordError(
            f"cannot run {words[0]}: no such program; is it spelt right and on PATH?"
        )
    return list(words)


def prepare(plan: CapturePlan) -> None:
    """Make the capture directory; refuse one that holds a capture, whose files would be mixed up
    with the new."""
    held = [file.name for pattern in CAPTURED for file in plan.path.glob(pattern)]
    if held:
        raise CannotRecordError(
            f"{plan.folder} holds a capture already ({held[0]}): give another folder with -o"
        )
    plan.path.mkdir(parents=True, exist_ok=True)
    (plan.path / environment.FILE).unlink(missing_ok=True)


def injected_path() -> str:
    """Python's search path with what attaches every process in front."""
    own = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(INJECTED), own]) if own else str(INJECTED)


def injected_environment(plan: CapturePlan) -> dict[str, str]:
    """The environment in which every Python process of the command attaches itself."""
    logged = {"TORCH_TRACE": str(plan.path / COMPILED)} if plan.compile_log else {}
    return QUIET | os.environ | logged | {VARIABLE: plan.to_text(), "PYTHONPATH": injected_path()}


def run_attached(command: Sequence[str], plan: CapturePlan) -> int:
    """Run the command attached; its return code, negative for a signal as `subprocess` has it."""
    prepare(plan)
    with children_heard() as hear_children_as_before, Signals(plan) as signals:

        def begin() -> None:
            hear_children_as_before()
            signals.die_with_us()

        interval = plan.nvml_interval  # sampled from here, so that the script is not slowed
        sampler = None
        if interval is not None:
            sampler = nvml.Sampler(own_file(plan.path, "nvml", ".jsonl"), interval)
        try:
            child = subprocess.Popen(  # noqa: S603
                command,
                env=injected_environment(plan),
                # what the shell opened for the command: `<(...)`, `3<`, a jobserver's pipe
                close_fds=False,
                preexec_fn=begin,
            )
            signals.pass_to(child)
            returned = child.wait()
        finally:
            if sampler is not None:
                sampler.close()
    _describe(plan)
    return returned


def _describe(plan: CapturePlan) -> None:
    """Write `environment.json` where no process of the command has: the folder may be gone or the
    disk full by now, which does not change how the command ended."""
    try:
        if not (plan.path / environment.FILE).exists():
            environment.write_environment(plan)
    except OSError as error:
        echo_line(f"{environment.FILE} could not be written: {error.strerror}")


def echo_line(line: str) -> None:
    """A line on standard error, if that takes one."""
    with suppress(OSError, ValueError):
        click.echo(f"traceanalyzer: {line}", err=True)


def exit_as(returned: int) -> None:
    """End this process as the command ended: with its status, or by its signal."""
    if returned >= 0:
        raise SystemExit(returned)
    number = -returned
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    # the command has left its core already
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
