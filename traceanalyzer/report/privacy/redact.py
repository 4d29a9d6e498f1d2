"""A report that can be published: no paths, hosts or user names, and aliases for the names its
owner marks. Every text is looked at unless its field says that it is the product's own
(`metric(..., text="own")`: classes, causes, units)."""

import dataclasses
import operator
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeVar

from traceanalyzer.base.figures import Text, text_kind_of
from traceanalyzer.report.model import Report
from traceanalyzer.report.privacy.aliases import Aliases
from traceanalyzer.report.privacy.secrets import Secrets
from traceanalyzer.trace import Run

Change = Callable[
    [Text, str], str
]  # from what a text is and the text itself to the text to have there

T = TypeVar("T")


def redact(report: Report, patterns: Sequence[re.Pattern[str]] = ()) -> Report:
    """The report without paths, hosts and users; names matching a pattern become `kernel-1`,
    `name-1`, ..."""
    return redact_with(report, None, patterns)[0]


def redact_with(
    report: Report, shown: T, patterns: Sequence[re.Pattern[str]] = ()
) -> tuple[Report, T]:
    """The report and what is shown with it (a dataclass), cleaned alike: equal names get equal
    aliases."""
    secrets = Secrets.of(
        [(item.path, item.kind) for item in report.inputs], _texts([report, shown])
    )
    report = _with_paths(report, [""] * len(report.inputs))
    cleaned, other = _walk([report, shown], _cleaning(secrets))
    if patterns:
        cleaned, other = _hide_names([cleaned, other], cleaned.tables.get("kernels", []), patterns)
    return _with_paths(cleaned, secrets.inputs), other


def _cleaning(secrets: Secrets) -> Change:
    """Each text is cleaned once, however many rows have it."""
    known: dict[str, str] = {}

    def change(_: Text, text: str) -> str:
        if text not in known:
            known[text] = secrets.clean(text)
        cleaned = known[text]
        return text if cleaned == text else cleaned

    return change


def _with_paths(report: Report, paths: Sequence[str]) -> Report:
    inputs = [
        dataclasses.replace(one, path=path) for one, path in zip(report.inputs, paths, strict=True)
    ]
    return dataclasses.replace(report, inputs=inputs)


def redact_rows(rows: Any, run: Run, patterns: Sequence[re.Pattern[str]] = ()) -> Any:
    """The rows of a table of `run` (or any measurement of it), cleaned like a report."""
    captures = [one for trace in run.traces for one in trace.captures]
    inputs = [*run.traces, *run.logs, *captures]
    recordings = [(one.path, one.source) for one in inputs]
    secrets = Secrets.of(recordings, _texts(rows))
    cleaned = _walk(rows, _cleaning(secrets))
    return _hide_names(cleaned, _kernels(cleaned), patterns) if patterns else cleaned


def _kernels(value: Any) -> list[Any]:
    """The rows in a list, or in lists in a list, that have a kernel's two names."""
    if isinstance(value, list):
        return [row for one in value for row in _kernels(one)]
    return [value] if hasattr(value, "full_name") else []


def _hide_names(value: Any, kernels: Sequence[Any], patterns: Sequence[re.Pattern[str]]) -> Any:
    aliases = Aliases(patterns)
    for row in kernels:
        aliases.learn_kernel(row.name, row.full_name)

    def change(what: Text, text: str) -> str:
        return aliases.in_sentence(text) if what == "sentence" else aliases.in_name(text)

    # Names first, so that sentences can be searched for all of them.
    _walk(value, lambda what, text: text if what == "sentence" else change(what, text))
    return _walk(value, change)


def _texts(value: Any) -> list[str]:
    """The distinct texts, in their order."""
    texts: dict[str, None] = {}

    def keep(_: Text, text: str) -> str:
        texts[text] = None
        return text

    _walk(value, keep)
    return list(texts)


def _walk(value: Any, change: Change, what: Text = "name") -> Any:
    """A copy in which every text has been changed that is not the product's own; `what` its field
    says it is. What has none is the same."""
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, str):
        own = what == "own" or (what == "scenario" and "=" not in value)
        return value if own else change(what, value)
    inner = partial(_walk, change=change, what=what)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        walked = type(value)(map(inner, value))
        is_same = all(map(operator.is_, walked, value))
        return value if is_same else walked
    if isinstance(value, dict):  # or tags, which are written their own way
        return type(value)(zip(value, map(inner, value.values()), strict=True))
    if dataclasses.is_dataclass(type(value)):
        return _walked_row(value, change)
    made_when_asked_for = isinstance(value, Sequence) and not isinstance(value, bytes)
    return inner(list(value)) if made_when_asked_for else value


def _walked_row(value: Any, change: Change) -> Any:
    changed = {}
    for name, kind in _text_kinds(value.__class__):
        old = getattr(value, name)
        new = _walk(old, change, kind)
        if new is not old:
            changed[name] = new
    return dataclasses.replace(value, **changed) if changed else value


@cache
def _text_kinds(row: type[Any]) -> list[tuple[str, Text]]:
    """The fields of a dataclass, and what the text of each is."""
    return [(f.name, text_kind_of(f)) for f in dataclasses.fields(row)]
