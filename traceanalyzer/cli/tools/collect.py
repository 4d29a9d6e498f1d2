"""`traceanalyzer collect`: record a command on the GPU host, without a change to its script."""

import functools
import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from traceanalyzer.cli.options import Number, help_all_option, help_of
from traceanalyzer.collect.plan import ACTIVE, LIGHT_STEPS, UNPROFILED_STEPS, WAIT, WARMUP

if TYPE_CHECKING:
    from traceanalyzer.collect.plan import CapturePlan
    from traceanalyzer.collect.profilers.ncu import NcuOptions
    from traceanalyzer.collect.profilers.nsys import NsysOptions

F = TypeVar("F", bound="Callable[..., Any]")
SECONDS = Number(min=0, min_open=True)
SCRIPT = ".py"
COMMAND = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Everything after the first word that is no option of ours belongs to the command."""
VERDICT = click.option(
    "--verdict/--no-verdict",
    default=True,
    show_default=True,
    help="End with the verdict: reads the recording on this machine.",
)
"""For recorders whose recording is answered at once; an export of nsys may be large."""


@click.group("collect", **help_of("collect"))
@help_all_option
def collect() -> None:
    """Record a command on the GPU host, without a change to its script."""


def _count(
    name: str,
    default: int,
    text: str,
    *,
    least: int,
) -> Callable[[F], F]:
    return click.option(
        name, type=click.IntRange(min=least), default=default, show_default=True, help=text
    )


def _recorder(name: str) -> Callable[[Callable[..., None]], click.Command]:
    return collect.command(
        name, cls=click.Command, context_settings=COMMAND, **help_of(f"collect_{name}")
    )


def _common(command: F) -> F:
    options = [
        help_all_option,
        click.argument(
            "words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND..."
        ),
        click.option(
            "-o", "--output", metavar="DIR", help="Capture directory; by default capture-DATE-TIME."
        ),
        _count("--wait", WAIT, "Steps left out at the start.", least=1),
        click.option(
            "--step-on",
            metavar="REGEX",
            help="Function whose calls are the steps: module.Class.method.",
        ),
        click.option(
            "--nvml",
            "nvml_interval",
            type=SECONDS,
            metavar="SECONDS",
            help="Sample the GPUs through NVML.",
        ),
        click.option(
            "--ceilings", is_flag=True, help="First measure what the GPU reaches: a copy, matmuls."
        ),
    ]
    return functools.reduce(lambda made, option: option(made), reversed(options), command)


@_recorder("torch")
@_common
@VERDICT
@_count(
    "--unprofiled-steps",
    UNPROFILED_STEPS,
    "Least steps timed without profiler; more until steady.",
    least=0,
)
@_count("--light-steps", LIGHT_STEPS, "Steps recorded with device activities only.", least=0)
@_count("--warmup", WARMUP, "Steps profiled and thrown away.", least=0)
@_count("--active", ACTIVE, "Steps recorded.", least=1)
@_count("--repeat", 1, "Recordings, each after --wait steps.", least=1)
@click.option(
    "--first",
    is_flag=True,
    help="Record the first steps of the process, and time steady ones after them.",
)
@_count(
    "--eager-steps",
    0,
    "Steps timed with torch.compile's code switched off: when it has paid for itself.",
    least=0,
)
@click.option(
    "--shapes/--no-shapes", default=True, show_default=True, help="Input shapes of operators."
)
@click.option("--stacks", is_flag=True, help="Python call stacks (costly).")
@click.option("--memory", is_flag=True, help="Allocator events.")
@click.option(
    "--modules/--no-modules",
    default=True,
    show_default=True,
    help="Names of modules; 3 us a call, none if compiled.",
)
@click.option(
    "--memory-snapshot",
    is_flag=True,
    help="Also a CUDA memory snapshot, on out-of-memory too; `analyze` reads it.",
)
@click.option(
    "--compile-log",
    is_flag=True,
    help="Also torch.compile's log (TORCH_TRACE); `analyze` reads it.",
)
@click.option(
    "--time-limit",
    type=SECONDS,
    metavar="SECONDS",
    help="End a recording after this.",
)
@click.option("--on-signal", is_flag=True, help="Record only when SIGUSR2 is sent to this process.")
def collect_torch(
    words: tuple[str, ...], output: str | None, compile_log: bool, **options: Any
) -> None:
    """Record torch.profiler."""
    from_first = {"warmup": 0, "light_steps": 0} if options["first"] else {}
    _record("torch", words, output, {**options, **from_first, "compile_log": compile_log})


@_recorder("timing")
@_common
@VERDICT
def collect_timing(words: tuple[str, ...], output: str | None, **options: Any) -> None:
    """Time every step, without a profiler."""
    _record("timing", words, output, options)


@_recorder("nsys")
@_common
@_count(
    "--unprofiled-steps",
    UNPROFILED_STEPS,
    "Least steps timed without capture; more until steady.",
    least=0,
)
@_count("--warmup", WARMUP, "Steps captured before those that count.", least=0)
@_count("--active", ACTIVE, "Steps captured.", least=1)
@click.option(
    "--whole-run", is_flag=True, help="Capture from start to end, also a program without PyTorch."
)
@click.option("--sample-cpu", is_flag=True, help="Also sample the CPU (slows the host).")
@click.option("--gpu-metrics", is_flag=True, help="Sample the GPUs' counters (may need root).")
@click.option(
    "--os-calls", is_flag=True, help="Record reads, polls and waits of the operating system."
)
@click.option("--memory", is_flag=True, help="GPU memory usage.")
@click.option(
    "--operators/--no-operators",
    default=True,
    show_default=True,
    help="Names and shapes of PyTorch's operators, and modules (slows the captured steps).",
)
@click.option(
    "--keep-report",
    is_flag=True,
    help="Keep the .nsys-rep: it holds environment, arguments and output.",
)
def collect_nsys(
    words: tuple[str, ...],
    output: str | None,
    whole_run: bool,
    sample_cpu: bool,
    gpu_metrics: bool,
    os_calls: bool,
    keep_report: bool,
    **options: Any,
) -> None:
    """Record Nsight Systems."""
    from traceanalyzer.collect.profilers import nsys

    chosen = nsys.NsysOptions(
        whole_run,
        sample_cpu,
        options["memory"],
        keep_report,
        gpu_metrics,
        os_calls,
        options["operators"],
    )
    _record("nsys", words, output, options, chosen)


@_recorder("ncu")
@_common
@click.option(
    "--trace",
    metavar="FILE",
    type=click.Path(),
    help="Measure the kernels that took most time in this recording.",
)
@click.option("--kernel", metavar="REGEX", help="Measure kernels whose function has such a name.")
@_count("--top", 10, "Kernels of the recording.", least=1)
@_count("--launches", 10, "Launches measured of each launch shape.", least=1)
@click.option(
    "--stalls", is_flag=True, help="Also what warps wait for (runs each kernel more often)."
)
@click.option(
    "--whole-run", is_flag=True, help="From the start, also of a program without PyTorch."
)
def collect_ncu(
    words: tuple[str, ...],
    output: str | None,
    trace: str | None,
    kernel: str | None,
    top: int,
    launches: int,
    stalls: bool,
    whole_run: bool,
    **options: Any,
) -> None:
    """Measure kernels by Nsight Compute."""
    from traceanalyzer.collect.profilers import ncu

    if (trace is None) == (kernel is None):
        raise click.UsageError("give --trace FILE or --kernel REGEX")
    functions = () if trace is None else _top_functions(trace, top)
    chosen = ncu.NcuOptions(functions, kernel, launches, whole_run, stalls)
    _record(
        "ncu", words, output, {**options, "unprofiled_steps": 0, "warmup": 0, "active": 1}, chosen
    )


def _top_functions(recording: str, top: int) -> tuple[str, ...]:
    """The functions of the kernels with the most time in a recording, collectives left out."""
    import traceanalyzer
    from traceanalyzer.analysis.names.kernel_names import function_name
    from traceanalyzer.analysis.tables.kernels import kernel_stats
    from traceanalyzer.collect.run import CannotRecordError
    from traceanalyzer.diagnosis.measurements import measure

    total: dict[str, float] = {}
    for m in map(measure, traceanalyzer.load(recording).traces):
        for row in kernel_stats(m.rated):
            if not m.linked.classes.is_communication[m.linked.classes.index(row.cls)]:
                total[row.full_name] = total.get(row.full_name, 0.0) + row.total_ms
    if not total:
        raise CannotRecordError(f"{recording}: holds no kernels to choose from")
    longest = sorted(total, key=total.__getitem__, reverse=True)[:top]
    return tuple(dict.fromkeys(map(function_name, longest)))


@_recorder("rocprofv3")
@_common
def collect_rocprofv3(words: tuple[str, ...], output: str | None, **options: Any) -> None:
    """Record AMD's rocprofv3."""
    from traceanalyzer.collect.profilers.rocprofv3 import EVERY_STEP

    marked = {"unprofiled_steps": 0, "warmup": 0, "active": EVERY_STEP}
    _record("rocprofv3", words, output, options | marked)


@_recorder("jax")
@_common
@VERDICT
@_count(
    "--unprofiled-steps",
    UNPROFILED_STEPS,
    "Least steps timed without profiler; more until steady.",
    least=0,
)
@_count("--warmup", WARMUP, "Steps recorded before those that count.", least=0)
@_count("--active", ACTIVE, "Steps recorded.", least=1)
def collect_jax(words: tuple[str, ...], output: str | None, **options: Any) -> None:
    """Record JAX's profiler."""
    _record("jax", words, output, options)


def _told_command(words: Sequence[str]) -> str:
    """The command by its program and its script or module, as `python3 train.py`: other arguments
    may hold secrets."""
    told = [Path(words[0]).name]
    for before, word in pairwise(words):
        if before == "-m":
            told += ["-m", word]
        elif word.endswith(SCRIPT):
            told.append(Path(word).name)
        if len(told) > 1:
            break
    return " ".join(told)


def _record(
    recorder: str,
    words: tuple[str, ...],
    output: str | None,
    options: dict[str, Any],
    chosen: "NsysOptions | NcuOptions | None" = None,
) -> None:
    """`verdict` of the options: whether the answer is to be said; recorders without it have none."""
    from traceanalyzer.collect import outcome, run
    from traceanalyzer.collect.host import environment
    from traceanalyzer.collect.plan import CapturePlan

    says_verdict = options.pop("verdict", False)
    command = run.as_command(words)
    plan = CapturePlan(
        folder=str(Path(output or time.strftime("capture-%Y%m%d-%H%M%S")).absolute()),
        recorder=recorder,
        command=_told_command(words),
        git_revision=environment.git_revision(Path.cwd()),
        ceilings=_ceilings() if options.pop("ceilings") else None,
        **options,
    )
    returned, trouble = _run(command, plan, chosen)
    try:
        lines = [*filter(None, [trouble]), *outcome.describe_outcome(plan, returned, command)]
    except Exception as error:  # the command has ended, and its status stands
        lines = [f"what was recorded cannot be told: {type(error).__name__}: {error}"]
    for line in lines:
        run.echo_line(line)
    if outcome.recordings(plan):
        if says_verdict:
            _say_verdict(plan)
        run.echo_line(outcome.next_command(plan))
    run.exit_as(returned)


def _say_verdict(plan: "CapturePlan") -> None:
    """The answer, in a sentence; nothing where the recording cannot be read."""
    from traceanalyzer.collect import run
    from traceanalyzer.comparison.notebook import shown_of

    with suppress(Exception):  # the command has ended, and its status stands
        run.echo_line(shown_of([plan.path]).summary.headline)


def _run(
    command: list[str], plan: "CapturePlan", chosen: "NsysOptions | NcuOptions | None"
) -> tuple[int, str | None]:
    """The command's exit status, and what went wrong with the recording."""
    from traceanalyzer.collect import run
    from traceanalyzer.collect.profilers import ncu, nsys, rocprofv3

    profilers = {"nsys": nsys, "ncu": ncu, "rocprofv3": rocprofv3}
    profiler = profilers.get(plan.recorder)
    if profiler is None:
        return run.run_attached(command, plan), None
    program = shutil.which(plan.recorder)
    if program is None:
        raise run.CannotRecordError(profiler.MISSING)
    # what the profiler leaves tells of the machine: only what `finish` moves out stays
    work = plan.path / f".{plan.recorder}.{os.getpid()}"
    try:
        work.mkdir(parents=True, exist_ok=True)
        returned = run.run_attached(profiler.profile_command(program, work, chosen, command), plan)
        try:
            return returned, profiler.finish(program, work, chosen, plan.path)
        except Exception as error:  # the command has ended, and its status stands
            return returned, f"{plan.recorder}: {type(error).__name__}: {error}"
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _ceilings() -> dict[str, Any] | None:
    """What the GPU reaches, said on stderr; None where it cannot be measured."""
    from traceanalyzer.collect import ceilings

    reached, trouble = ceilings.measured_apart()
    message = f"ceilings were not measured: {trouble}"
    if reached is not None:
        products = ", ".join(
            f"{name} {rate:.0f}" for name, rate in reached["matmul_tflops"].items()
        )
        message = (
            f"{reached['gpu']}: copy {reached['copy_gbs']:.0f} GB/s, matmuls {products} TFLOP/s"
        )
    click.echo(f"traceanalyzer: {message}", err=True)
    return reached
