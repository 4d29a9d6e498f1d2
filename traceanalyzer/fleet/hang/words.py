"""The verdict in sentences, and what to do next."""

from collections.abc import Iterator

from traceanalyzer.fleet.hang.model import Hang, ranks_text

HEADLINES = {
    "cpu_stopped": "{Ranks} stopped on the CPU: {have} not issued {operation}, which {others} wait for.",
    "gpu_stopped": "The GPU of {ranks} stopped: {operation} is complete on the peers, not there.",
    "no_dump": "{Ranks} left no dump, and {others} wait for {it}, at {operation}.",
    "mismatch": "{Ranks} issued another operation than {its} peers at {operation}: no rank can complete it.",
    "order": "{Ranks} left the common order: {have} not issued {operation}, and {others} wait for each other.",
    "stalled": "Undecided: {suspects} have all issued {operation}, and none completed it. The transfer stands, or the "
    "GPU of one of them is stuck before it.",
    "undecided": "Undecided: {others} wait for each other, and no rank stands out.",
    "nothing_wrong": "Nothing is stuck: no rank waits for another.",
}
STILL = "Nothing wrong is seen: the oldest operation had waited {s:.1f} s when the dumps were written, as in any step."
ALONE = "{Ranks} left no dump, and no other rank waits: what was in flight has failed, or the job had ended."
EVEN = "Undecided: the ranks of {group} issued different operations at {operation}, and as many one as the other."

DO = {
    "cpu_stopped": "py-spy dump --native --pid PID    # {where}: the line at which its CPU stands",
    "gpu_stopped": "nvidia-smi -q -d ECC,PAGE_RETIREMENT; dmesg -T | grep -i xid    # {where}; then cuda-gdb -p PID",
    "no_dump": "dmesg -T | grep -iE 'oom|killed process|segfault|xid'    # {where}; and the end of its log",
    "mismatch": "py-spy dump --pid PID    # {where}: which branch issued {operation}",
    "order": "py-spy dump --pid PID    # {where}: which branch left out {operation}",
    "stalled": "ncclras -v    # while it hangs, twice: which ranks launched less; ibstat and dmesg on their hosts",
    "undecided": "ncclras -v    # while it hangs, twice; py-spy dump --pid PID on two ranks that wait for each other",
}
DECIDES = {
    "stalled": "What would decide it: TORCH_NCCL_ENABLE_TIMING=1 (a rank that has not begun it has a stuck GPU).",
    "undecided": "What would decide it: stacks of ranks that wait for each other; a second dump a minute later.",
}


def headline(hang: Hang) -> str:
    """The answer in a sentence."""
    verdict = hang.verdict
    if verdict.kind == "nothing_wrong" and hang.waited_s is not None and verdict.victims:
        return STILL.format(s=hang.waited_s)
    text = EVEN if verdict.kind == "mismatch" and not verdict.culprits else HEADLINES[verdict.kind]
    text = ALONE if verdict.kind == "no_dump" and verdict.group is None else text
    same = [one for one in hang.culprits if one.kind == verdict.kind]
    chosen = [one.rank for one in same] or verdict.culprits
    ranks, many = ranks_text(chosen) if chosen else "", len(chosen) > 1
    number = f" #{verdict.sequence:,}" if verdict.sequence is not None else ""
    operation = f"{verdict.collective or 'the operation'}{number} of {verdict.group}"
    if len({(one.operation, one.group) for one in same}) > 1:
        operation += " and the like"
    others = f"{verdict.victims:,} rank{'s' * (verdict.victims != 1)}"
    words = (
        {"have": "they have", "its": "their", "it": "them"} if many else {"have": "it has", "its": "its", "it": "it"}
    )
    told = text.format(
        Ranks=ranks[:1].upper() + ranks[1:], ranks=ranks, operation=operation, group=verdict.group, others=others,
        suspects=ranks_text(verdict.suspects) if verdict.suspects else "all", **words,
    )  # fmt: skip
    rest = [one for one in hang.culprits if one not in same]
    return told + "".join(f" Rank {one.rank}, too: {one.kind.replace('_', ' ')}." for one in rest[:2])


def next_steps(hang: Hang) -> list[str]:
    """What to run now."""
    verdict, found = hang.verdict, []
    for kind in dict.fromkeys(culprit.kind for culprit in hang.culprits):
        same = [culprit for culprit in hang.culprits if culprit.kind == kind]
        hosts = sorted({culprit.host for culprit in same if culprit.host})
        where = ranks_text(culprit.rank for culprit in same) + (f" on {', '.join(hosts[:3])}" if hosts else "")
        found.append(DO[kind].format(where=where, operation=same[0].operation))
    if not found and verdict.kind in DO:
        found.append(DO[verdict.kind].format(where="", operation=verdict.collective))
    if verdict.confidence == "undecided" and verdict.kind in DECIDES:
        found.append(DECIDES[verdict.kind])
    return found


def more_next_time(hang: Hang) -> list[str]:
    """The variables that would have recorded what is missing."""
    inputs = hang.inputs
    known = {
        "TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=60000: every rank dumps": inputs.missing,
        "TORCH_FR_BUFFER_SIZE=20000: older operations were overwritten": inputs.overwritten,
        "TORCH_NCCL_ENABLE_TIMING=1: which ranks have begun an operation": not inputs.timed
        and hang.verdict.kind == "stalled",
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
