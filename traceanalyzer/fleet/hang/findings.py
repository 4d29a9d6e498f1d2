"""What a hang comes from, with evidence, and what to do about it: for people and as values."""

from collections.abc import Iterator, Sequence

from traceanalyzer.base import dataclass
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.fleet.hang.model import SITUATIONS, Hang, HangCulprit, Mismatch, ranks_text

SHOWN_HOSTS = 3
SHOWN_LAST = 3  # ranks of which it is said what they issued last


@dataclass(frozen=True)
class HangFinding:
    """Ranks that the others wait for at one operation, or operations that differ."""

    id: str
    title: str
    ranks: tuple[int, ...]
    sure: bool
    evidence: list[Evidence]


@dataclass(frozen=True)
class HangStep:
    """Something to do, and the command for it; `action` is empty where the command says it all."""

    id: str
    action: str
    command: str

    @property
    def line(self) -> str:
        """What is run, or what would decide it, on a line."""
        return self.command or self.action


def hang_findings(hang: Hang) -> list[HangFinding]:
    """The culprits by operation, then operations that differ."""
    alike: dict[tuple[str, str, str], list[HangCulprit]] = {}
    for culprit in hang.culprits:
        key = (culprit.kind, culprit.operation, culprit.group)
        alike.setdefault(key, []).append(culprit)
    culprits = [_of_culprits(hang, found) for found in alike.values()]
    return [*culprits, *map(_of_mismatch, hang.mismatches)]


def why(hang: Hang, culprits: Sequence[HangCulprit]) -> str:
    """Why ranks are culprits of one kind, in words."""
    reason = SITUATIONS[culprits[0].kind]["why" if len(culprits) == 1 else "why_many"]
    return reason.format(left=hang.left(culprit.rank for culprit in culprits))


def culprit_words(hang: Hang, culprit: HangCulprit) -> str:
    """A culprit, why it is one, and at which operation."""
    return f"{_places([culprit])}: {why(hang, [culprit])} at {culprit.operation} of {culprit.group}"


def _of_culprits(hang: Hang, culprits: Sequence[HangCulprit]) -> HangFinding:
    """The finding of ranks that are blamed for the same at one operation."""
    first = culprits[0]
    where = _places(culprits)
    reason = why(hang, culprits)
    return HangFinding(
        id=first.kind.replace("_", "-"),
        title=f"{where[:1].upper()}{where[1:]}: {reason} at {first.operation} of {first.group}",
        ranks=tuple(culprit.rank for culprit in culprits),
        sure=all(culprit.sure for culprit in culprits),
        evidence=list(_evidence(hang, culprits)),
    )


def _evidence(hang: Hang, culprits: Sequence[HangCulprit]) -> Iterator[Evidence]:
    """The signals of the ranks, what they issued last, and who waits in their group."""
    blamed = {culprit.rank for culprit in culprits}
    signals = {
        **hang.without_entries,
        "CPU behind": hang.cpu_behind,
        "GPU behind": hang.gpu_behind,
    }
    for name, ranks in signals.items():
        having = blamed.intersection(ranks)
        if having:
            yield Evidence("signal", name, "", ranks_text(having))
    told = [culprit for culprit in culprits if culprit.issued_last]
    for culprit in told[:SHOWN_LAST]:
        yield Evidence("last issued", culprit.issued_last, "", f"rank {culprit.rank}")
    group_name = culprits[0].group
    for group in hang.groups:
        if group.group == group_name and group.stands_at:
            at = f"{group.stands_at} of {group_name}"
            in_it = f"{group.waiting:,} of {group.ranks:,}"
            yield Evidence("ranks that have issued it and not completed it", in_it, "", at)


def _of_mismatch(mismatch: Mismatch) -> HangFinding:
    return HangFinding(
        id="operations-differ",
        title=f"Ranks issued different operations at #{mismatch.sequence:,} of {mismatch.group}",
        ranks=mismatch.ranks,
        sure=bool(mismatch.ranks),
        evidence=[
            Evidence("issued", mismatch.issued, "", ranks_text(mismatch.issued_by)),
            Evidence("issued", mismatch.others, "", ranks_text(mismatch.others_by)),
        ],
    )


def hang_steps(hang: Hang) -> list[HangStep]:
    """What to do now: for each kind of culprit, else for the situation; then what would decide
    it."""
    steps = []
    for kind in dict.fromkeys(culprit.kind for culprit in hang.culprits):
        alike = [culprit for culprit in hang.culprits if culprit.kind == kind]
        steps.append(_step(kind, _places(alike), alike[0].operation))
    situation = SITUATIONS[hang.situation]
    if not steps and "run" in situation:
        suspects = ranks_text(hang.verdict.suspects or hang.verdict.culprits)
        operation = hang.verdict.collective or "the operation"
        steps.append(_step(hang.situation, suspects or "the ranks", operation))
    if "decides" in situation:
        steps.append(HangStep("decide", situation["decides"], ""))
    return steps


def _step(kind: str, where: str, operation: str) -> HangStep:
    texts = SITUATIONS[kind]
    known = {"where": where, "operation": operation}
    return HangStep(
        id=kind.replace("_", "-"),
        action=texts["do"].format(**known),
        command=texts["run"].format(**known),
    )


def _places(culprits: Sequence[HangCulprit]) -> str:
    """The ranks, and their hosts where these are known."""
    ranks = ranks_text(culprit.rank for culprit in culprits)
    hosts = sorted({culprit.host for culprit in culprits if culprit.host})
    return f"{ranks} on {', '.join(hosts[:SHOWN_HOSTS])}" if hosts else ranks
