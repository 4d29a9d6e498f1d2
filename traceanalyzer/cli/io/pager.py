"""A pager for what does not fit on a person's screen, as git and gh have one."""

import os
import shlex
import shutil

PAGER = "TRACEANALYZER_PAGER"
"""Goes before PAGER; empty or `cat`: none."""
DEFAULT = "less"
LESS = "FRX"
"""What less does unless LESS says otherwise: leave at once what fits, show colours, keep the screen."""


def paged(text: str) -> bool:
    """Show the text in a pager if it has more lines than the terminal; whether that was done."""
    if text.count("\n") < shutil.get_terminal_size().lines:
        return False
    command = _command()
    if not command:
        return False
    import subprocess

    try:
        subprocess.run(  # noqa: S603
            command, input=text.encode("utf-8", "replace"), env={"LESS": LESS, **os.environ}, check=False
        )
    except OSError:
        return False
    return True


def _command() -> list[str]:
    """The program with its arguments; empty where none is wanted or there is none."""
    wanted = os.environ.get(PAGER, os.environ.get("PAGER", DEFAULT))
    try:
        words = shlex.split(wanted)
    except ValueError:
        return []
    if not words or words == ["cat"] or shutil.which(words[0]) is None:
        return []
    return words
