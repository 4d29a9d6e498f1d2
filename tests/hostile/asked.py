"""`python -m tests.hostile.asked COMMANDS`: command lines, as JSON, one after the other in one
process, which starts faster than one each; prints what each left with, what it printed, and its
lines of errors."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout

from traceanalyzer.cli import main


def asked(words: list[str]) -> tuple[int, str, list[str]]:
    """A command's exit status, what it printed, and its lines of errors."""
    printed, errors = (
        io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)
    )
    with redirect_stdout(printed), redirect_stderr(errors):
        try:
            main(words)
        except SystemExit as left:
            status = int(left.code or 0)
    out, err = (stream.buffer.getvalue().decode() for stream in (printed, errors))  # type: ignore[attr-defined]
    return status, out, err.splitlines()


if __name__ == "__main__":
    sys.stdout.write(json.dumps([asked(words) for words in json.loads(sys.argv[1])]))
