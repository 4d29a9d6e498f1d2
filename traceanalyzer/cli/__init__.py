"""The command line.

Each command is a small module of the same name that parses, calls and prints: `answers/` about
recordings, `tools/` around them; `io/` is what they share, `help/NAME.txt` what `--help` says;
`group` is the list of commands. What a command printed before is printed again without any of it."""

import atexit
import gc
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit status: 0 done, 1 cannot be analysed, 2 usage,
    130 interrupted."""
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        with suppress(ValueError):  # in a thread
            if signal.getsignal(number) is signal.SIG_DFL:
                # Leave by an exception, so that what was made on the way goes.
                signal.signal(number, lambda number, _: sys.exit(128 + number))
    # Else the interpreter looks for circles among all that goes with it anyway: a tenth of the time
    # of a short command.
    atexit.register(gc.freeze)
    # A twelfth of such a command: loading its modules makes few circles, and reading none; unasked
    # it looks after 700.
    gc.set_threshold(1_000_000)
    words = sys.argv[1:] if arguments is None else arguments
    if _is_answered(words):
        sys.exit(0)
    from traceanalyzer.cli.group import run_command

    run_command(words)


def _is_answered(words: list[str]) -> bool:
    """Print what is known to be the answer; whether that was done."""
    if not words or words[0].startswith("-"):
        return False
    from traceanalyzer.base.errors import TraceAnalyzerError
    from traceanalyzer.cli.at_once import printed_at_once

    with suppress(OSError, TraceAnalyzerError):  # which the command then tells of
        return printed_at_once(words)
    return False


def __getattr__(name: str) -> Any:
    """`cli`, the group of all commands, when it is asked for: an answer that is printed again does
    without click."""
    if name != "cli":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from traceanalyzer.cli.group import cli

    return cli
