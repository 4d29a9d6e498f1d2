"""Files of a capture are written under their own name only when they are whole, and never end the
program that is recorded."""

import gzip
import json
import shutil
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMPRESSION = 1
"""Level 9 (torch's own) takes ten times as long for a tenth less, while the script waits."""
CHUNK_BYTES = 1 << 20
UNFINISHED = b'"unfinished step"'


@contextmanager
def too_large_is_an_error() -> Iterator[None]:
    """Inside, what is written beyond the program's limit on the size of files (RLIMIT_FSIZE) raises
    OSError, also where the program wants the signal for that: it would end the program for a file
    of ours."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGXFSZ])
    try:
        yield
    finally:
        if signal.SIGXFSZ not in before and signal.SIGXFSZ in signal.sigpending():
            signal.sigwait([signal.SIGXFSZ])
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@too_large_is_an_error()
def write_json(path: Path, value: Any) -> None:
    """Write a JSON file at once."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(value, indent=1) + "\n")
    partial.replace(path)


@too_large_is_an_error()
def write_trace(profiler: Any, path: Path, unfinished_step: str | None = None) -> None:
    """Export a stopped torch.profiler as a gzipped chrome trace.

    The range of a step that was cut short is renamed, so that it does not pass for a step."""
    plain = path.with_name(f".{path.name}.partial.json")
    packed = path.with_name(f".{path.name}.partial")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        profiler.export_chrome_trace(str(plain))
    with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=COMPRESSION) as target:
        if unfinished_step is None:
            shutil.copyfileobj(source, target, CHUNK_BYTES)
        else:
            name = f'"{unfinished_step}"'.encode()
            target.writelines(line.replace(name, UNFINISHED) for line in source)
    plain.unlink()
    packed.replace(path)
