"""How many workers a loader is tried with."""

from traceanalyzer.trials.switch import ProgramFacts

LEAST_WORKERS = 4  # of a loader, also on fewer CPUs: many wait for a disk
MOST_WORKERS = 8  # more rarely help, and each has a copy of the dataset's objects
MANY_WORKERS = 16  # where these are too few


def worker_count(facts: ProgramFacts) -> int:
    """Workers for a loader: the CPUs that each rank has, between these bounds."""
    return max(LEAST_WORKERS, min(MOST_WORKERS, facts.cpus // max(facts.ranks, 1)))


def many_workers(facts: ProgramFacts) -> int:
    """More workers than that."""
    return max(2 * worker_count(facts), min(MANY_WORKERS, facts.cpus // max(facts.ranks, 1)))
