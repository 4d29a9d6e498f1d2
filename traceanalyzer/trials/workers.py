"""How many workers a loader is tried with: from what its batches and the rest of the step take, and
the CPUs that the process may use."""

import math
from collections.abc import Sequence

from traceanalyzer.trials.switch import ProgramFacts

LEAST_WORKERS = 2  # one alone has no batch ready while it loads the next
USUAL_WORKERS = 8  # where nothing is known of the loader: as many as CPUs, up to this
MOST_WORKERS = 32  # at first: each has a copy of the dataset's objects
MOST_TRIED = 64  # where twice as many were faster again and again
SPARE = 1.25  # workers take turns, and batches take unlike times
LEAST_REST_SHARE = 0.01  # of the step: what is not loading is not nothing
CROWDED = 1.5  # workers that compute all the time may be so many times the CPUs


def cpus_of_rank(facts: ProgramFacts) -> int:
    """CPUs that each rank has."""
    return max(facts.cpus // max(facts.ranks, 1), 1)


def workers_now(facts: ProgramFacts) -> int:
    """The most workers that a loader has."""
    return max((int(one.get("num_workers") or 0) for one in facts.loaders), default=0)


def workers_needed(facts: ProgramFacts) -> int:
    """Workers with which batches come as fast as the rest of the step takes them, or as fast as the
    CPUs can make them."""
    loading = facts.loading
    cpus = cpus_of_rank(facts)
    if not loading.get("step_ms"):
        return max(LEAST_WORKERS, min(USUAL_WORKERS, cpus))
    step_ms = loading["step_ms"]
    rest_ms = step_ms - loading["loading_ms"]
    if not facts.gpu:
        # what else runs on this host makes it longer, and not its CPU time
        rest_ms = min(rest_ms, loading["cpu_ms"] - loading["loading_cpu_ms"])
    rest_ms = max(rest_ms, LEAST_REST_SHARE * step_ms)
    now = workers_now(facts)
    # workers that the step waits for are busy all the time
    work_ms = now * step_ms if now else loading["loading_ms"]
    least_ms = 0.0 if now else loading["cpu_ms"] / cpus
    needed = math.ceil(SPARE * work_ms / max(rest_ms, least_ms))
    return max(LEAST_WORKERS, min(needed, MOST_WORKERS))


def more_than_now(facts: ProgramFacts) -> int:
    """Workers of a loader that has some: at least twice as many."""
    return max(2 * workers_now(facts), workers_needed(facts))


def other_counts(facts: ProgramFacts, workers: int) -> Sequence[int]:
    """Twice and half as many, as far as the CPUs have time for them."""
    busy_share = 0.0
    if facts.loading.get("loading_ms") and not workers_now(facts):
        busy_share = facts.loading["loading_cpu_ms"] / facts.loading["loading_ms"]
    most = CROWDED * cpus_of_rank(facts) / busy_share if busy_share else MOST_TRIED
    counts = (2 * workers, workers // 2)
    return [count for count in counts if 1 <= count <= min(most, MOST_TRIED)]
