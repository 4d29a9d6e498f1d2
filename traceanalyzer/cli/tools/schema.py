"""`traceanalyzer schema`."""

from pathlib import Path
from typing import Any

import click

from traceanalyzer.cli.options import command, output_option
from traceanalyzer.report.table_entries import BY_COMMAND, named

DOCUMENTS = ("report", *BY_COMMAND, "whatif", "compare", "runs", "metric")
"""What has a schema: the report of `analyze`, other commands' documents by their names, `history`'s runs and metric."""


@command("schema")
@click.argument("document", type=click.Choice(DOCUMENTS), default="report")
@output_option()
def schema(document: str, file: Path | None) -> None:
    """Print the JSON Schema (draft 2020-12) of what a command prints with --format json."""
    from traceanalyzer.cli.io.output import check_writable, write
    from traceanalyzer.report.json import dump

    check_writable(file)
    write(dump(_schema(document)), file)


def _schema(document: str) -> dict[str, Any]:
    from traceanalyzer.comparison.model import Comparison
    from traceanalyzer.history.runs import MetricSeries, StoredRun
    from traceanalyzer.replay.whatif import WhatIf
    from traceanalyzer.report import schema as schemas

    if document == "report":
        return schemas.report_schema()
    if document == "runs":
        return schemas.rows_schema(document, StoredRun)
    whole: dict[str, type[Any]] = {"whatif": WhatIf, "compare": Comparison, "metric": MetricSeries}
    if document in whole:
        return schemas.document_schema(whole[document])
    return schemas.rows_schema(document, named(document).row)
