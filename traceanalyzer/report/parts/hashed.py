"""Hashes of a report's inputs, so that a reader can tell whether a file is the one it is on."""

from dataclasses import replace
from pathlib import Path

from traceanalyzer.ingest.cache.hashes import sha256_of
from traceanalyzer.report.model import Report

MOST_BYTES = 256 << 20  # of a file: half a second; of more, the report says none


def hashed(report: Report) -> Report:
    """The report with the SHA-256 of each input that is a file of moderate size."""
    inputs = [
        replace(item, sha256=item.sha256 or _sha256(Path(item.path))) for item in report.inputs
    ]
    return replace(report, inputs=inputs)


def _sha256(path: Path) -> str | None:
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return None
        return sha256_of(path)
    except (OSError, ValueError):
        return None
