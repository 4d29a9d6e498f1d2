"""`traceanalyzer collect`: record a command on the GPU host, without a change to its script."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from traceanalyzer.collect.plan import ACTIVE, UNPROFILED_STEPS, WAIT, WARMUP

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

COMMAND = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Everything after the first word that is no option of ours belongs to the command."""


@click.group("collect")
def collect() -> None:
    """Record a command on the GPU host, without a change to its script.

    Steps are found by themselves: the optimizer's, or for inference the calls of the outermost module. The
    command's output and exit status are its own.
    """


def _count(name: str, default: int, text: str, *, least: int) -> Callable[[F], F]:
    """An option that counts steps."""
    return click.option(name, type=click.IntRange(min=least), default=default, show_default=True, help=text)


def _common(command: F) -> F:
    """Options of every recorder."""
    options = [
        click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND..."),
        click.option("-o", "--output", metavar="DIR", help="Capture directory; by default capture-DATE-TIME."),
        _count("--wait", WAIT, "Steps left out at the start.", least=1),
        click.option("--step-on", metavar="REGEX", help="Function whose calls are the steps: module.Class.method."),
        click.option("--nvml", "nvml_interval", type=float, metavar="SECONDS", help="Sample the GPUs through NVML."),
    ]
    return functools.reduce(lambda made, option: option(made), reversed(options), command)


@collect.command("torch", context_settings=COMMAND)
@_common
@_count("--unprofiled-steps", UNPROFILED_STEPS, "Steps timed without profiler.", least=0)
@_count("--warmup", WARMUP, "Steps profiled and thrown away.", least=0)
@_count("--active", ACTIVE, "Steps recorded.", least=1)
@_count("--repeat", 1, "Recordings, each after --wait steps.", least=1)
@click.option("--shapes/--no-shapes", default=True, show_default=True, help="Input shapes of operators.")
@click.option("--stacks", is_flag=True, help="Python call stacks (costly).")
@click.option("--memory", is_flag=True, help="Allocator events.")
@click.option("--modules", is_flag=True, help="Module hierarchy of operators.")
@click.option("--memory-snapshot", is_flag=True, help="Also a CUDA memory snapshot.")
@click.option("--time-limit", type=float, metavar="SECONDS", help="End a recording at the next step after this.")
@click.option("--on-signal", is_flag=True, help="Record only when SIGUSR2 is sent to this process.")
def collect_torch(words: tuple[str, ...], output: str | None, **options: Any) -> None:
    """Record torch.profiler: collect torch -- python train.py.

    Some steps are timed without the profiler first, so that every capture carries its own truth. Every rank writes
    its own file. SIGUSR2 sent to this process records (again) at the next step.
    """
    _record("torch", words, output, options)


def _record(recorder: str, words: tuple[str, ...], output: str | None, options: dict[str, Any]) -> None:
    from traceanalyzer.collect import environment, outcome, run
    from traceanalyzer.collect.plan import Plan

    command = run.as_command(words)
    plan = Plan(
        folder=str(Path(output or time.strftime("capture-%Y%m%d-%H%M%S")).absolute()),
        recorder=recorder,
        command=Path(words[0]).name,
        git_revision=environment.git_revision(Path.cwd()),
        **options,
    )
    returned = run.run(command, plan)
    for line in outcome.describe(plan, returned):
        click.echo(f"traceanalyzer: {line}", err=True)
    run.exit_as(returned)
