"""A recording of JAX as a trace."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from traceanalyzer.base.errors import EmptyRecordingError, UnreadableInputError
from traceanalyzer.ingest.abilities import Abilities
from traceanalyzer.ingest.columns import Texts
from traceanalyzer.ingest.foreign import is_converted
from traceanalyzer.ingest.protobuf.wire import BYTES, fields_before_damage
from traceanalyzer.ingest.stream import ByteStream, open_stream
from traceanalyzer.ingest.xplane.chrome import read_chrome
from traceanalyzer.ingest.xplane.proto import PLANE, PLANE_NAME, PLANE_STAT, read_space
from traceanalyzer.ingest.xplane.space import Space
from traceanalyzer.ingest.xplane.trace import make_trace
from traceanalyzer.trace import Trace

ABILITIES = Abilities(
    name="JAX: `.xplane.pb`, or the `trace.json.gz` beside it",
    tells="kernels and copies, API calls, HLO operators with their module, steps of `StepTraceAnnotation`, Python "
    "functions, XLA's threads, the allocator's curve",
    cannot="shapes, so no roofline; waits on the device; rank; before JAX 0.11 the GPU's name; of a TPU launches and "
    "copies; the JSON rounds times",
    record="`traceanalyzer collect jax -- python train.py`; or `with jax.profiler.trace(DIR):` around some steps, "
    "each in `with jax.profiler.StepTraceAnnotation('train', step_num=i):`",
)
SUFFIX = ".xplane.pb"
EXACT_NOTE = f"Times in this JSON are rounded, and it says less: the {SUFFIX} of the same profile is exact."
HEAD = bytes((PLANE << 3 | BYTES,))
_PLANES = re.compile(rb"[/#]|Task Environment")
_PROCESS = (b'"/host:CPU', b'"/device:GPU:', b'"/device:TPU:')


def recognise(head: bytes, path: Path) -> bool:
    """Whether these are planes of XLA's profiler, or their form as JSON."""
    return _is_space(head) or is_chrome(head)


def is_chrome(head: bytes) -> bool:
    """Whether this is the JSON in which processes are planes."""
    return head[:1] == b"{" and b'"process_name"' in head and any(name in head for name in _PROCESS)


def _is_space(head: bytes) -> bool:
    if not head.startswith(HEAD) or is_converted(head):
        return False
    planes = fields_before_damage(head)[0][:1]
    found = [field for _, _, start, end in planes for field in fields_before_damage(head, start, end)[0]]
    named = any(number == PLANE_NAME and _PLANES.match(head, a, b) for number, _, a, b in found)
    return named and all(number <= PLANE_STAT for number, *_ in found)


def repeats(path: Path) -> bool:
    """Whether a file is the JSON form of an XPlane in the same folder: of the two in a folder that one is read."""
    return not path.name.endswith(SUFFIX) and any(path.parent.glob(f"*{SUFFIX}"))


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """The trace in the file. Raises UnreadableInputError, EmptyRecordingError."""
    texts = Texts()
    with open_stream(path, progress) as stream:
        data = _whole(stream)
        is_proto = data.startswith(HEAD)
        space = read_space(data, texts) if is_proto else _from_chrome(path, data, texts, stream.damage)
        if stream.damage:
            space = space.cut()
    trace = make_trace(str(path), space, texts)
    if not is_proto:
        trace = replace(trace, health=replace(trace.health, notes=(*trace.health.notes, EXACT_NOTE)))
    if not len(trace.device_ops) and not len(trace.host_ranges) and not len(trace.api_calls):
        if space.truncated or space.lost:
            raise UnreadableInputError(f"{path}: too damaged or cut off: not one event could be read; record it again")
        raise EmptyRecordingError(f"{path}: the profile holds no events; record some steps with jax.profiler.trace")
    return [trace]


def _whole(stream: ByteStream) -> bytes:
    parts = []
    while piece := stream.read():
        parts.append(piece)
    return b"".join(parts)


def _from_chrome(path: Path, data: bytes, texts: Texts, damage: str) -> Space:
    try:
        return read_chrome(data, texts)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = damage or "it is cut off or damaged"
        raise UnreadableInputError(
            f"{path}: not a readable trace of JAX: {why}; give the {SUFFIX} beside it"
        ) from error
