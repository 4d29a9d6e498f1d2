"""The verdict in sentences, and what to do next."""

from collections.abc import Iterator

from traceanalyzer.fleet.hang.model import SITUATIONS, Culprit, Hang, ranks_text

ONE = {"have": "it has", "its": "its", "it": "it"}
MANY = {"have": "they have", "its": "their", "it": "them"}


def headline(hang: Hang) -> str:
    """The answer in a sentence."""
    verdict = hang.verdict
    same = _by_kind(hang).get(verdict.kind, [])
    chosen = [one.rank for one in same] or verdict.culprits
    ranks = ranks_text(chosen)
    alike = len({(one.operation, one.group) for one in same}) > 1
    sentence = SITUATIONS[hang.situation]["sentence"].format(
        Ranks=ranks[:1].upper() + ranks[1:], ranks=ranks, group=verdict.group, waited_s=hang.waited_s,
        operation=verdict.operation + " and the like" * alike,
        others=f"{verdict.victims:,} rank{'s' * (verdict.victims != 1)}",
        suspects=ranks_text(verdict.suspects) or "all", **(MANY if len(chosen) > 1 else ONE),
    )  # fmt: skip
    rest = [one for one in hang.culprits if one not in same]
    return sentence + "".join(f" Rank {one.rank}, too: {one.kind.replace('_', ' ')}." for one in rest[:2])


def _by_kind(hang: Hang) -> dict[str, list[Culprit]]:
    found: dict[str, list[Culprit]] = {}
    for culprit in hang.culprits:
        found.setdefault(culprit.kind, []).append(culprit)
    return found


def next_steps(hang: Hang) -> list[str]:
    """What to run now."""
    found = []
    for kind, same in _by_kind(hang).items():
        hosts = sorted({culprit.host for culprit in same if culprit.host})
        where = ranks_text(culprit.rank for culprit in same) + (f" on {', '.join(hosts[:3])}" if hosts else "")
        found.append(SITUATIONS[kind]["run"].format(where=where, operation=same[0].operation))
    situation = SITUATIONS[hang.situation]
    if not found:
        found.append(situation.get("run", "").format(where="", operation=hang.verdict.collective or None))
    return [text for text in (*found, situation.get("decides")) if text]


def more_next_time(hang: Hang) -> list[str]:
    """The variables that would have recorded what is missing."""
    inputs = hang.inputs
    known = {
        "TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=60000: every rank dumps": inputs.missing,
        "TORCH_FR_BUFFER_SIZE=20000: older operations were overwritten": inputs.overwritten,
        "TORCH_NCCL_ENABLE_TIMING=1: which ranks have begun an operation": not inputs.timed
        and hang.situation == "stalled",
        "a dump with stack traces (onlyActive and includeStackTraces of the dump): the line of the program": (
            not inputs.frames
        ),
        "`ncclras -v > FOLDER/ras.txt` while it hangs: hosts, and processes that are gone": not inputs.logs,
    }
    return [text for text, lacks in known.items() if lacks]


def notes(hang: Hang) -> Iterator[str]:
    """What the dumps lack, and what NCCL adds."""
    inputs = hang.inputs
    if inputs.missing:
        yield f"{len(inputs.missing):,} of {inputs.expected:,} ranks have no dump: {ranks_text(inputs.missing)}."
    for one in inputs.unreadable[:3]:
        yield f"{one.path}{'' if one.rank is None else f' (rank {one.rank})'} could not be read: {one.why}."
    if len(inputs.unreadable) > 3:
        yield f"{len(inputs.unreadable) - 3:,} more files could not be read."
    if inputs.repeated:
        yield f"{len(inputs.repeated):,} dumps are of ranks that have another: the newest of each counts."
    for process in hang.dead[:3]:
        yield f"NCCL's RAS does not reach: {process}."
