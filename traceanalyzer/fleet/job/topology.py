"""Where a rank is: on which host, in which stage of a pipeline."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from traceanalyzer.analysis.ranks.digest import RankDigest
from traceanalyzer.base import UnreadableInputError
from traceanalyzer.fleet.digests.columns import Rank

_PIPELINE = re.compile(r"(?<![a-z])(pp|pipe|pipeline)(?![a-z])|pipeline_model_parallel", re.IGNORECASE)
"""How groups of stages are named: `mesh_pp`, `PIPELINE_MODEL_PARALLEL_GROUP`."""
_NUMBER = re.compile(r"\d+")
SHORTENED = "..."


def hosts_of(ranks: Sequence[Rank]) -> tuple[list[str | None], bool]:
    """The host of each rank, and whether that is assumed: where none was recorded, ranks are counted over the GPUs that
    each recording lists."""
    named = [one.digest.host if one.digest is not None else None for one in ranks]
    if any(named):
        return named, False
    devices = Counter(one.devices for one in ranks if one.devices > 1).most_common(1)
    if not devices or len(ranks) <= devices[0][0]:
        return named, False
    size = devices[0][0]
    numbers = [None if one.digest is None else one.digest.rank for one in ranks]
    return [None if rank is None else f"node{rank // size}" for rank in numbers], True


def racks_in(path: Path) -> dict[str, str]:
    """The rack of each host, from lines of `HOST RACK` (or `HOST,RACK`). Raises UnreadableInputError."""
    try:
        rows = [
            line.replace(",", " ").split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
        ]
    except (OSError, ValueError) as error:
        raise UnreadableInputError(f"{path}: cannot be read ({error})") from error
    wrong = next((i for i, row in enumerate(rows, 1) if len(row) != 2), None)
    if wrong is not None:
        raise UnreadableInputError(f"{path}: line {wrong} is not a host and its rack (HOST RACK)")
    return dict(rows)


def stages_of(digests: Sequence[RankDigest]) -> list[int | None]:
    """The stage of each rank: its place in its group of the pipeline; None where no such group was recorded."""
    return [_stage_of(one) for one in digests]


def _stage_of(one: RankDigest) -> int | None:
    found = (_stage(group.name, group.ranks, one.rank) for group in one.groups)
    return next((stage for stage in found if stage is not None), None)


def _stage(name: str, ranks: str, rank: int | None) -> int | None:
    if rank is None or not _PIPELINE.search(name) or SHORTENED in ranks:
        return None
    members = [int(number) for number in _NUMBER.findall(ranks)]
    return members.index(rank) if rank in members else None
