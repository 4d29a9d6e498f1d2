"""The remedies, one visible list: each is `trigger -> words -> scenario`. `analyze` and `whatif`
predict from it."""

from traceanalyzer.diagnosis.remedies import (
    communication,
    data,
    host,
    kernels,
    launches,
    loops,
    straggler,
)
from traceanalyzer.diagnosis.remedies.remedy import Remedy, entries

GROUPS = (communication, data, host, kernels, launches, loops, straggler)
_IN_GROUPS = (one for group in GROUPS for one in vars(group).values())
_MADE = {one.id: one for one in _IN_GROUPS if isinstance(one, Remedy)}
REMEDIES = tuple(
    _MADE[id_] for id_ in entries()
)  # in the order in which `whatif` has those of equal gain

NOT_REPLAYED = (
    "faster_kernels",
    "chunked_loss",
    "checkpoint",
    "expandable_segments",
    "free_tensors",
    "accumulate_gradients",
    "mark_dynamic",
    "remove_graph_breaks",
    "warm_cache",
    "fix_compile_error",
    "asynchronous_scheduling",
)
"""Changes that rules propose by name: of kernels that nobody has a better one of, of memory, of
torch.compile, and of servers."""
NAMES = tuple(sorted([*(remedy.id for remedy in REMEDIES), *NOT_REPLAYED]))
"""What `remedy` can be in a report. The names are a contract; more may be added."""
