"""How a kernel is called where its short name has no room: one label for each kernel of a
recording, whatever draws it, and no label for two."""

from collections import Counter
from collections.abc import Iterable, Mapping

from traceanalyzer.analysis.names.kernel_names import briefest_name
from traceanalyzer.report.format import plain, shorten
from traceanalyzer.report.names.told_apart import told_apart

LABEL_WIDTH = 40  # characters
NARROW_LABEL_WIDTH = 28
"""Beside so many a table of kernels has room for times, SOL and headroom in 80 columns."""
WIDE = 100  # columns of a terminal that has room for whole labels


def label_width(columns: int) -> int:
    """Characters of labels in a terminal with so many columns."""
    return LABEL_WIDTH if columns >= WIDE else NARROW_LABEL_WIDTH


def kernel_labels(names: Iterable[str], width: int = LABEL_WIDTH) -> Mapping[str, str]:
    """The label of each of these short names, at most so many characters; one that fits is its
    own."""
    distinct = list(dict.fromkeys(names))
    brief = {name: _briefly(name, width) for name in distinct}
    times = Counter(brief.values())
    # What two names become alike is not left out of either.
    told = {name: text if times[text] == 1 else plain(name) for name, text in brief.items()}
    shown = told_apart(told.values(), width, lambda text: shorten(text, width))
    return _numbered({name: shown[text] for name, text in told.items()}, width)


def _briefly(name: str, width: int) -> str:
    return plain(name) if len(name) <= width else plain(briefest_name(name))


def _numbered(labels: Mapping[str, str], width: int) -> dict[str, str]:
    """The labels, those that are still alike with a number behind them."""
    seen = Counter[str]()
    found = {}
    for name, label in labels.items():
        seen[label] += 1
        number = f"~{seen[label]}" if seen[label] > 1 else ""
        found[name] = f"{label[: width - len(number)]}{number}"
    return found
