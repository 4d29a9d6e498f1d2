"""A report that can be published: no paths, hosts or user names, and aliases for the names its owner marks.

Every string of the report is looked at, whatever field it stands in; only the product's own vocabulary
(classes, causes, units) stays as it is.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

from traceanalyzer.report.privacy.aliases import Aliases
from traceanalyzer.report.privacy.secrets import Secrets

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

    from traceanalyzer.report.model import Report
    from traceanalyzer.trace import Run

    Change = Callable[[str, str], str]
    """From a field's name and a text in it to the text to have there."""

T = TypeVar("T")

VOCABULARY = frozenset(
    (
        "tool",
        "id",
        "cls",
        "severity",
        "bottleneck",
        "kind",
        "step_source",
        "unprofiled_source",
        "unit",
        "cause",
        "largest_idle_cause",
        "scale",
        "bound",
        "part",
        "collected",
        "sort",
    )
)
"""Fields whose text is the product's own; to change it would break the report's contract."""
SENTENCES = frozenset(
    ("headline", "culprit", "title", "action", "basis", "metric", "value", "where", "notes", "detail")
)
"""Fields in which names stand among other words; all others hold one name."""


def redact(report: Report, patterns: Sequence[re.Pattern[str]] = ()) -> Report:
    """The report without paths, hosts and users; names matching a pattern become `kernel-1`, `name-1`, ..."""
    return redact_with(report, None, patterns)[0]


def redact_with(report: Report, beside: T, patterns: Sequence[re.Pattern[str]] = ()) -> tuple[Report, T]:
    """The report and what is shown beside it (a dataclass), cleaned alike: equal names get equal aliases."""
    secrets = Secrets.of([(item.path, item.kind) for item in report.inputs], _texts([report, beside]))
    cleaned, other = _walk([report, beside], lambda _, text: secrets.clean(text))
    inputs = [dataclasses.replace(i, path=alias) for i, alias in zip(cleaned.inputs, secrets.inputs, strict=True)]
    cleaned = dataclasses.replace(cleaned, inputs=inputs)
    if patterns:
        cleaned, other = _hide_names([cleaned, other], cleaned.tables.get("kernels", []), patterns)
    return cleaned, other


def redact_rows(rows: Any, run: Run, patterns: Sequence[re.Pattern[str]] = ()) -> Any:
    """The rows of a table of `run` (or any measurement of it), cleaned like a report."""
    recordings = [(trace.path, trace.source) for trace in (*run.traces, *run.logs)]
    secrets = Secrets.of(recordings, _texts(rows))
    cleaned = _walk(rows, lambda _, text: secrets.clean(text))
    named = [row for row in cleaned if hasattr(row, "full_name")] if isinstance(cleaned, list) else []
    return _hide_names(cleaned, named, patterns) if patterns else cleaned


def _hide_names(value: Any, kernels: Sequence[Any], patterns: Sequence[re.Pattern[str]]) -> Any:
    aliases = Aliases(patterns)
    for row in kernels:
        aliases.learn_kernel(row.name, row.full_name)

    def change(name: str, text: str) -> str:
        if name == "path":
            return text
        return aliases.in_sentence(text) if name in SENTENCES else aliases.in_name(text)

    # Names first, so that sentences can be searched for all of them.
    _walk(value, lambda name, text: text if name in SENTENCES else change(name, text))
    return _walk(value, change)


def _texts(report: Any) -> list[str]:
    texts: list[str] = []

    def keep(_: str, text: str) -> str:
        texts.append(text)
        return text

    _walk(report, keep)
    return texts


def _walk(value: Any, change: Change, name: str = "") -> Any:
    """A copy in which every text outside the vocabulary has been changed; `name` is the field it stands in."""
    if name in VOCABULARY and not (name == "id" and "=" in str(value)):
        # An id with `=` is a user's own scenario: `whatif --speedup 'AcmeModel=2'`.
        return value
    if isinstance(value, str):
        return change(name, value)
    if isinstance(value, list):
        return [_walk(item, change, name) for item in value]
    if isinstance(value, dict):
        return {key: _walk(item, change, name) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value, **{f.name: _walk(getattr(value, f.name), change, f.name) for f in dataclasses.fields(value)}
        )
    return value
