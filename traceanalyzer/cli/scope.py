"""The options that say what a question is about: the part of a run, and what is known beside the
recording."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from traceanalyzer.cli.options import FILE, Number, pattern, with_all

if TYPE_CHECKING:
    from traceanalyzer.analysis.joined.knowledge import Knowledge
    from traceanalyzer.diagnosis.part_of_run import Selection

Function = TypeVar("Function", bound="Callable[..., Any]")


class Scope(NamedTuple):
    """What a question is about: the part of a run, and what is known beside the recording."""

    selection: "Selection"
    knowledge: "Knowledge | None"  # None: what is known in any case


BESIDE = ("classes", "hardware", "counters", "iteration_name")
"""Options of what is known beside the recording."""
AMOUNTS = (
    (
        "samples",
        (
            "Samples of a step of one process, all micro-batches together; gives samples/s "
            "and ms a sample."
        ),
    ),
    ("tokens", "Tokens of a step of one process, without padding; gives tokens/s."),
    (
        "flops",
        (
            "Operations that the model needs for a step of one process, e.g. 4.2e15; gives "
            "TFLOP/s and MFU."
        ),
    ),
    ("peak", "What MFU is a share of, TFLOP/s (default: the datasheet's dense peak)."),
)


def _kernel_classes(file: Path) -> Any:
    from traceanalyzer.analysis.names.kernel_classes import KernelClasses

    return KernelClasses.load(file)


def _hardware(file: Path) -> Any:
    from traceanalyzer.trace.hardware import HardwareTable

    return HardwareTable.load(file)


def _counters(file: Path) -> Any:
    from traceanalyzer.ingest.ncu import read_counters

    return tuple(read_counters(file))


def _file_option(
    name: str, as_: str, load: Callable[[Path], Any], help_: str
) -> Callable[[Function], Function]:
    """An option that names a file, and gives what is in it."""

    def loaded(_: click.Context, __: click.Parameter, file: Path | None) -> Any:
        return None if file is None else load(file)

    return click.option(name, as_, callback=loaded, help=help_, **FILE)


def _knowledge() -> tuple[Callable[[Function], Function], ...]:
    """The options with what is known beside the recording."""
    return (
        _file_option(
            "--kernel-classes",
            "classes",
            _kernel_classes,
            "TOML with custom kernel classes; takes precedence over the built-in rules.",
        ),
        _file_option(
            "--hardware",
            "hardware",
            _hardware,
            (
                "TOML with peak FLOP/s and bandwidth of more GPUs; takes precedence over the "
                "built-in ones."
            ),
        ),
        _file_option(
            "--ncu",
            "counters",
            _counters,
            "Nsight Compute's report of the same kernels (ncu --csv, pages raw or details; .ncu-rep where ncu is "
            "installed): what it measured replaces the estimates.",
        ),
    )


def selection_options(command: Function) -> Function:
    """The options of the selection and of what is known beside the recording, as one `scope`, for a
    command that works with numpy."""

    @wraps(command)
    def with_numpy(*args: Any, **options: Any) -> Any:
        from traceanalyzer.cli.io.process import load_numpy

        load_numpy()
        return command(*args, **options)

    return scope_options(cast("Function", with_numpy))


def scope_options(command: Function) -> Function:
    """The options of the selection and of what is known beside the recording, as one `scope`. A
    command that prints kept rows does so without numpy."""

    @wraps(command)
    def narrowed(
        *args: Any, rank: int | None, device: int | None, step: int | None, **options: Any
    ) -> Any:
        from traceanalyzer.diagnosis.part_of_run import Selection

        given = {name: options.pop(name) for name in BESIDE}
        known = {name: value for name, value in given.items() if value is not None}
        scope = Scope(Selection(rank, device, step), _knowledge_of(known))
        return command(*args, scope=scope, **options)

    number = click.IntRange(min=0)
    selection = (
        click.option("--rank", type=number, metavar="N", help="Only this rank."),
        click.option(
            "--device", type=number, metavar="N", help="Only this GPU (its CUDA ordinal)."
        ),
        click.option(
            "--step",
            type=number,
            metavar="N",
            help="Only this step (its index, as `show steps` lists it).",
        ),
        click.option(
            "--iteration-name",
            metavar="REGEX",
            help="Ranges with such a name are one iteration of a server each.",
            callback=lambda _context, _parameter, text: text and pattern(text).pattern,
        ),
    )
    return cast("Function", with_all((*selection, *_knowledge()))(narrowed))


def _knowledge_of(values: dict[str, Any]) -> "Knowledge | None":
    """What the user says is known; None where nothing is said."""
    if not values:
        return None
    from traceanalyzer.cli.io.process import load_numpy

    load_numpy()
    from traceanalyzer.analysis.joined.knowledge import Knowledge

    return Knowledge(**values)


def amount_options(command: Function) -> Function:
    """`--samples`, `--tokens`, `--flops` and `--peak`, as part of `scope`: apply inside
    `selection_options`."""

    @wraps(command)
    def informed(*args: Any, scope: Scope, peak: float | None, **options: Any) -> Any:
        given = {name: options.pop(name) for name in ("samples", "tokens", "flops")}
        if peak is None and all(value is None for value in given.values()):
            return command(*args, scope=scope, **options)
        from dataclasses import replace

        from traceanalyzer.analysis.joined.knowledge import Knowledge
        from traceanalyzer.trace import StepAmounts

        known = replace(
            scope.knowledge or Knowledge(),
            amounts=StepAmounts(**given),
            peak_flops_per_s=None if peak is None else peak * 1e12,
        )
        return command(*args, scope=scope._replace(knowledge=known), **options)

    positive = Number(min=0, min_open=True, max=1e24)
    options = [
        click.option(f"--{name}", type=positive, metavar="N", help=help_) for name, help_ in AMOUNTS
    ]
    return cast("Function", with_all(options)(informed))
