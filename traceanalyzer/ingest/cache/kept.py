"""Reading a recording once: from its kept model where there is one, else by its reader, which leaves a model behind.

Whatever is wrong with the cache (damage, no rights, a full disk) costs the reading that it would have saved, never the
answer.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from traceanalyzer.files import note_read
from traceanalyzer.ingest.cache.folder import MOST_BYTES, SUFFIX, made, make_room, opened, place
from traceanalyzer.ingest.cache.identity import Identity, identity_of
from traceanalyzer.ingest.cache.model_file import DamagedModelError, can_be_kept, read_model, write_model
from traceanalyzer.limits import limits
from traceanalyzer.reading import reading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from traceanalyzer.trace import Trace

_KEPT_SOURCES = ("kineto", "nsys")
_SHARE_OF_DISK = 4
"""A model is kept where the disk has that many times the recording's bytes free: the cache never fills it."""


def read_once(path: Path, read: Callable[[], list[Trace]]) -> list[Trace]:
    """The traces of a recording: of its kept model, else what `read` returns."""
    folder = place() if reading().cache else None
    identity = None if folder is None else _identity(path)
    if folder is None or identity is None:
        return read()
    kept = _kept(folder, identity, path)
    if kept is not None:
        return kept
    traces = read()
    if _identity(path) != identity:
        return traces
    _keep(folder, identity, traces)
    return _named(identity, traces)


def kept_traces(path: Path) -> list[Trace] | None:
    """The traces of a recording that has a kept model."""
    folder = place() if reading().cache else None
    identity = None if folder is None else _identity(path)
    return None if folder is None or identity is None else _kept(folder, identity, path)


def has_model(path: Path) -> bool:
    """Whether a recording has a kept model, sound or not."""
    folder = place() if reading().cache else None
    identity = None if folder is None else _identity(path)
    return folder is not None and identity is not None and (folder / (identity.name + SUFFIX)).is_file()


def _named(identity: Identity, traces: list[Trace]) -> list[Trace]:
    """The traces with the names that they are kept under."""
    return [replace(trace, kept_as=f"{identity.name}.{i}") for i, trace in enumerate(traces)]


def _identity(path: Path) -> Identity | None:
    try:
        return identity_of(path)
    except OSError:
        return None


def _kept(folder: Path, identity: Identity, path: Path) -> list[Trace] | None:
    most_rows = identity.size * limits().ratio
    try:
        with opened(folder, identity.name) as (file, size):
            traces = read_model(file, size, identity.name, str(path), most_rows)
    except (OSError, DamagedModelError):
        return None
    note_read(path)
    return _named(identity, traces)


def _keep(folder: Path, identity: Identity, traces: list[Trace]) -> None:
    if not all(trace.source in _KEPT_SOURCES and can_be_kept(trace) for trace in traces):
        return
    try:
        with made(folder, identity.name) as file:
            if shutil.disk_usage(folder).free < _SHARE_OF_DISK * min(identity.size, MOST_BYTES):
                raise OSError("the disk is nearly full")
            write_model(file, identity.name, traces)
        make_room(folder)
    except (OSError, ValueError):
        return
