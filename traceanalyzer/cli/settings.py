"""The options that ask for a run that was never made: batch, length, number format, GPU, ranks."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from traceanalyzer.cli.options import Number, with_all

if TYPE_CHECKING:
    from traceanalyzer.replay.unmade.question import Question

Function = TypeVar("Function", bound="Callable[..., Any]")
LARGEST_BATCH = 1_000_000
LARGEST_PRICE = 1e6
NAMES = ("batch", "length", "precision", "gpu", "ranks")
"""The options that ask for something else than the run as it is."""


class Wanted(NamedTuple):
    """Values of the options, as given."""

    batch: str | None
    length: str | None
    precision: str | None
    gpu: str | None
    ranks: str | None
    batch_now: float | None
    price: float | None

    def questions(self) -> "list[Question]":
        """What is asked; empty where the run is asked about as it is. Raises UsageError."""
        if all(getattr(self, name) is None for name in NAMES):
            if self.batch_now is not None or self.price is not None:
                raise click.UsageError(
                    "--batch-now and --price go with --batch, --length, --precision, --gpu or "
                    "--ranks"
                )
            return []
        from traceanalyzer.replay.unmade.sweep import questions_of

        try:
            return questions_of(
                batch=self.batch,
                length=self.length,
                precision=self.precision,
                gpu=self.gpu,
                ranks=self.ranks,
                batch_now=None if self.batch_now is None else int(self.batch_now),
            )
        except ValueError as error:
            raise click.UsageError(str(error)) from error


OPTIONS = (
    click.option(
        "--batch",
        metavar="N|Nx,...",
        help="Predict the step at another batch: 64, or 2x; several with commas are a sweep.",
    ),
    click.option(
        "--length",
        metavar="N|Nx,...",
        help="Predict the step at another sequence length: 8192, or 2x.",
    ),
    click.option(
        "--precision",
        metavar="FORMAT",
        help="Predict the step with products in bf16 (autocast), fp32 or tf32.",
    ),
    click.option("--gpu", metavar="NAME", help="Predict the step on another GPU: H200, MI300X."),
    click.option("--ranks", metavar="N,...", help="Predict the step on so many ranks."),
    click.option(
        "--batch-now",
        type=Number(1, LARGEST_BATCH),
        metavar="N",
        help="The recorded batch, where shapes do not tell it.",
    ),
    click.option(
        "--price",
        type=Number(0, LARGEST_PRICE),
        metavar="N",
        help="Price of the GPU an hour; gives that of a million tokens.",
    ),
)


def setting_options(function: Function) -> Function:
    """The options, which the command gets as one `Wanted`."""

    @wraps(function)
    def command(*args: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in Wanted._fields}
        return function(*args, asked=Wanted(**given), **options)

    return cast("Function", with_all(OPTIONS)(command))
