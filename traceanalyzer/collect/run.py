"""Runs the command to be recorded and tells what came of it. Its exit status is the command's."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.collect.host import environment, nvml, rescue
from traceanalyzer.collect.host.ranks import own_file
from traceanalyzer.collect.plan import VARIABLE, Plan

INJECTED = Path(__file__).parent / "injected"
FORWARDED = (signal.SIGTERM, signal.SIGHUP)
QUIET = {"KINETO_LOG_LEVEL": "6"}  # else libkineto writes `USDT:...` to standard error
COMPILED = "compile"
"""Folder of the capture for torch.compile's log: a file a rank, with code, paths and shapes."""
CAPTURED = ("trace.rank*", "timings.rank*", "nsys.*", "ncu.*", "rocprofv3.*")


class CannotRecordError(TraceAnalyzerError):
    """The recording cannot be started; the message says why and what to do."""


def as_command(words: Sequence[str]) -> list[str]:
    """The command line; `script.py ...` and `-m module ...` are given to this Python."""
    if words[0] == "-m" or (words[0].endswith(".py") and not os.access(words[0], os.X_OK)):
        return [sys.executable, *words]
    if shutil.which(words[0]) is None:
        raise CannotRecordError(
            f"cannot run {words[0]}: no such program; is it spelt right and on PATH?"
        )
    return list(words)


def prepare(plan: Plan) -> None:
    """Make the capture directory; refuse one that holds a capture, whose files would be mixed up
    with the new."""
    if held := [file.name for pattern in CAPTURED for file in plan.path.glob(pattern)]:
        raise CannotRecordError(
            f"{plan.folder} holds a capture already ({held[0]}): give another folder with -o"
        )
    plan.path.mkdir(parents=True, exist_ok=True)
    (plan.path / environment.FILE).unlink(missing_ok=True)


def injected_environment(plan: Plan) -> dict[str, str]:
    """The environment in which every Python process of the command attaches itself."""
    paths = os.pathsep.join([str(INJECTED), *filter(None, [os.environ.get("PYTHONPATH")])])
    logged = {"TORCH_TRACE": str(plan.path / COMPILED)} if plan.compile_log else {}
    return QUIET | os.environ | logged | {VARIABLE: plan.to_text(), "PYTHONPATH": paths}


def run(command: Sequence[str], plan: Plan) -> int:
    """Run the command attached; its return code, negative for a signal as `subprocess` has it."""
    prepare(plan)
    interval = plan.nvml_interval  # sampled from here, so that the script is not slowed
    sampler = (
        None if interval is None else nvml.Sampler(own_file(plan.path, "nvml", ".jsonl"), interval)
    )
    child = subprocess.Popen(command, env=injected_environment(plan))  # noqa: S603
    before = {number: signal.signal(number, handler) for number, handler in _handlers(child, plan)}
    try:
        returned = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if sampler is not None:
            sampler.close()
    if not (plan.path / environment.FILE).exists():
        environment.write(plan)
    return returned


def _handlers(child: subprocess.Popen[bytes], plan: Plan) -> Iterator[tuple[signal.Signals, Any]]:
    for forwarded in FORWARDED:
        yield forwarded, lambda number, frame: child.send_signal(number)
    # the terminal sends Ctrl-C to the command as well; we stay to tell what was recorded
    yield (
        signal.SIGINT,
        lambda number, frame: None if sys.stdin.isatty() else child.send_signal(number),
    )
    yield signal.SIGUSR2, lambda number, frame: _ask_all(plan, number)


def _ask_all(plan: Plan, number: int) -> None:
    for process in rescue.read(plan.path):
        os.kill(process.pid, number)


def exit_as(returned: int) -> None:
    """End this process as the command ended: with its status, or by its signal."""
    if returned >= 0:
        raise SystemExit(returned)
    signal.signal(-returned, signal.SIG_DFL) if -returned not in (
        signal.SIGKILL,
        signal.SIGSTOP,
    ) else None
    sys.stdout.flush()
    sys.stderr.flush()
    os.kill(os.getpid(), -returned)
