"""A report about a hang that can be published."""

import re
from collections.abc import Sequence
from dataclasses import replace

from traceanalyzer.fleet.hang.model import Hang
from traceanalyzer.report.privacy.redact import redact_rows
from traceanalyzer.report.privacy.secrets import HOST
from traceanalyzer.trace import Run

NODE = re.compile(r"on node \S+")


def redacted(hang: Hang, patterns: Sequence[re.Pattern[str]] = ()) -> Hang:
    """The report without paths, hosts and users; names that match a pattern become `name-1`, `name-2`, ..."""
    inputs = replace(
        hang.inputs,
        path="dumps",
        unreadable=[replace(one, path=f"dump-{i}") for i, one in enumerate(hang.inputs.unreadable, 1)],
        repeated=[replace(one, path=f"repeated-{i}") for i, one in enumerate(hang.inputs.repeated, 1)],
        logs=[f"log-{i}" for i, _ in enumerate(hang.inputs.logs, 1)],
    )
    hidden = replace(
        hang,
        culprits=[replace(one, host=HOST if one.host else None) for one in hang.culprits],
        dead=[NODE.sub(f"on node {HOST}", text) for text in hang.dead],
        inputs=inputs,
    )
    cleaned: Hang = redact_rows(hidden, Run(()), patterns)
    return cleaned
