"""What inductor left apart, and why, from the text that TORCH_LOGS=+fusion writes (the structured log has none of it).

Rounds of fusion follow each other for each graph; the pairs of a round in which nothing was fused any more are those
that were left apart.
"""

import re
from collections.abc import Iterable

from traceanalyzer.trace.compile_log import NotFused

MAX_PAIRS = 100_000
"""Pairs kept of a log."""
MAX_NODES = 200_000
"""Nodes of one graph whose operators are kept."""
MAX_REASON = 200
MAX_LINE = 100_000
"""Characters of a line that are looked at; a node that is fused of hundreds has some 50,000."""
MARK = b"[__fusion]"
_LINE = re.compile(r" (?P<thread>\d+) \S+\] (?:\[(?P<id>!?[\d/]+)(?:_\d+)?\] )?\[__fusion\] *(?P<said>.*)")
_NODE = re.compile(r"SchedulerNode\(name=\\?'(?P<name>\w+)\\?'\)(?P<about>.{0,4000}?)(?=SchedulerNode\(name=|$)")
_ORIGINS = re.compile(r"origins=(?:OrderedSet\(\[|\{)([^\]}]{0,2000})")
_PAIR = re.compile(r"cannot fuse (?P<first>\w+) with (?P<second>\w+): (?P<reason>.+)")
_ROUND = re.compile(r"completed fusion round .*fused (?P<before>\d+) nodes into (?P<after>\d+) nodes")


def read_fusion(lines: Iterable[bytes]) -> list[NotFused]:
    """The pairs that were left apart, graph by graph."""
    threads: dict[str, _Graph] = {}
    found: list[NotFused] = []
    for line in lines:
        if MARK not in line:
            continue
        text = _LINE.search(line[:MAX_LINE].decode("utf-8", "replace"))
        if text is None:
            continue
        said = text["said"]
        if said.startswith("===== attempting fusion (1/") or text["thread"] not in threads:
            found += threads[text["thread"]].left if text["thread"] in threads else []
            threads[text["thread"]] = _Graph(text["id"] or "")
        threads[text["thread"]].take(said)
    return [*found, *(pair for graph in threads.values() for pair in graph.left)][:MAX_PAIRS]


class _Graph:
    """The rounds of one graph."""

    def __init__(self, compile_id: str) -> None:
        self.compile_id = compile_id
        self.left: list[NotFused] = []
        self._round: list[NotFused] = []
        self._operators: dict[str, str] = {}

    def take(self, said: str) -> None:
        """Note a line."""
        pair, fused = _PAIR.match(said), _ROUND.match(said)
        if pair is not None:
            if len(self._round) < MAX_PAIRS:
                self._round.append(self._pair(pair))
        elif said.startswith("fuse_nodes_once"):
            self._round = []
        elif said.startswith("found 0 possible") or (fused is not None and fused["before"] == fused["after"]):
            self.left = self._round
        elif "SchedulerNode(name=" in said and len(self._operators) < MAX_NODES:
            for node in _NODE.finditer(said):
                origins = _ORIGINS.search(node["about"])
                self._operators.setdefault(node["name"], origins[1] if origins else "")

    def _pair(self, pair: re.Match[str]) -> NotFused:
        first, second = (self._with_operators(name) for name in (pair["first"], pair["second"]))
        return NotFused(self.compile_id, first, second, pair["reason"][:MAX_REASON])

    def _with_operators(self, name: str) -> str:
        """A node, with the operators that it computes: `op7_op8 (amax, exp)`."""
        each = [self._operators.get(f"op{part}", "") for part in name.removeprefix("op").split("_op")]
        operators = dict.fromkeys(one.strip() for text in each for one in text.split(",") if one.strip())
        return f"{name} ({', '.join(operators)})" if operators else name
