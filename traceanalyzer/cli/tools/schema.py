"""`traceanalyzer schema`."""

from pathlib import Path
from typing import Any

import click

from traceanalyzer.cli.options import command, output_option
from traceanalyzer.report.table_entries import BY_COMMAND, table_named

DOCUMENTS = ("report", *BY_COMMAND, "whatif", "compare", "runs", "metric")
"""What has a schema: the report of `analyze`, other commands' documents by their names, `history`'s
runs and metric."""


@command("schema")
@click.argument("document", type=click.Choice(DOCUMENTS), default="report")
@output_option()
def schema(document: str, file: Path | None) -> None:
    """Print the JSON Schema (draft 2020-12) of what a command prints with --format json."""
    from traceanalyzer.cli.io.output import check_writable, write
    from traceanalyzer.comparison.model import Comparison
    from traceanalyzer.history.runs import MetricSeries, StoredRun
    from traceanalyzer.replay.prediction import WhatIf
    from traceanalyzer.report import schema as schemas
    from traceanalyzer.report.json import dump

    check_writable(file)
    documents: dict[str, type[Any]] = {
        "whatif": WhatIf,
        "compare": Comparison,
        "metric": MetricSeries,
    }
    if document == "report":
        found = schemas.report_schema()
    elif document in documents:
        found = schemas.document_schema(documents[document])
    else:
        found = schemas.rows_schema(
            document, StoredRun if document == "runs" else table_named(document).row
        )
    write(dump(found), file)
