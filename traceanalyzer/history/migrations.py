"""The schema of a history file, as the steps that lead to it.

`PRAGMA user_version` is the number of steps a file has had. A released step never changes: what
comes next is one more function here, and in `MIGRATIONS`. The schema is explained in docs/history.md, and by
the comments that SQLite keeps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from sqlite_utils import Database


TABLES = (
    """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again, also where the run is deleted
    stored_at TEXT NOT NULL, -- UTC, ISO 8601
    tool_version TEXT NOT NULL,
    schema_version INTEGER NOT NULL, -- of the JSON in reports
    bottleneck TEXT NOT NULL,
    confidence REAL, -- 0 to 1
    headline TEXT NOT NULL,
    step_source TEXT NOT NULL,
    step_time_ms REAL, -- mean; null without steps
    unprofiled_step_time_ms REAL,
    gpu_idle_share REAL, -- 0 to 1
    gpu TEXT, -- names of the GPUs
    recordings INTEGER NOT NULL, -- files read
    selection TEXT, -- the options that narrowed the report; null for all of the recording
    fingerprint TEXT -- SHA-256 over the recordings: equal where the same files were analysed
)""",
    "CREATE INDEX runs_by_fingerprint ON runs(fingerprint)",
    """
CREATE TABLE tags (
    run_id INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (run_id, key)
)""",
    "CREATE INDEX tags_by_value ON tags(key, value)",
    """
CREATE TABLE metrics (
    run_id INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    name TEXT NOT NULL, -- its place in the report's metrics: budget_ms.idle
    value REAL NOT NULL, -- what the recording cannot tell has no row
    unit TEXT NOT NULL,
    PRIMARY KEY (run_id, name)
)""",
    "CREATE INDEX metrics_by_name ON metrics(name, run_id)",
    """
CREATE TABLE reports (
    run_id INTEGER PRIMARY KEY REFERENCES runs(id) ON DELETE CASCADE,
    json TEXT NOT NULL -- the whole report, as analyze --format json writes it
)""",
)
VIEWS = (
    """
CREATE VIEW run_overview AS
SELECT
    runs.id AS run_id, stored_at, bottleneck, confidence, step_time_ms, unprofiled_step_time_ms, gpu_idle_share, gpu,
    recordings, selection,
    (SELECT group_concat(key || '=' || value, ' ') FROM tags WHERE run_id = runs.id) AS tags,
    (SELECT min(earlier.id) FROM runs AS earlier
        WHERE earlier.fingerprint = runs.fingerprint AND earlier.id < runs.id) AS same_recording_as,
    headline
FROM runs""",
    """
CREATE VIEW metric_history AS
SELECT metrics.name AS metric, metrics.run_id, overview.stored_at, overview.tags, metrics.value, metrics.unit
FROM metrics JOIN run_overview AS overview ON overview.run_id = metrics.run_id""",
)
FINDING_HISTORY = """
CREATE VIEW finding_history AS
SELECT findings.id AS finding, findings.run_id, overview.stored_at, overview.tags, findings.class, findings.severity,
    findings.headroom_ms, findings.headroom_ms / overview.step_time_ms AS share_of_step, findings.title
FROM findings JOIN run_overview AS overview ON overview.run_id = findings.run_id"""


OVERVIEWS = (
    """
CREATE VIEW run_overview AS
SELECT
    runs.id AS run_id, stored_at, bottleneck, confidence,
    (SELECT value FROM metrics WHERE run_id = runs.id AND name = 'summary.step_ms') AS step_ms,
    unprofiled_step_time_ms,
    (SELECT value FROM metrics WHERE run_id = runs.id AND name = 'summary.idle_share') AS idle_share,
    gpu, recordings, selection,
    (SELECT group_concat(key || '=' || value, ' ') FROM tags WHERE run_id = runs.id) AS tags,
    (SELECT min(earlier.id) FROM runs AS earlier
        WHERE earlier.fingerprint = runs.fingerprint AND earlier.id < runs.id) AS same_recording_as,
    headline
FROM runs""",
    VIEWS[1],
    FINDING_HISTORY.replace("overview.step_time_ms", "overview.step_ms"),
)
"""Runs, metrics and findings over runs, under the names of the report's JSON."""
FROM_JSON: dict[str, tuple[str, dict[str, str | None]]] = {
    "inputs": (
        "$.inputs",
        {
            "path": "path",
            "kind": "kind",
            "rank": "rank",
            "events": "health.events",
            "lost": "health.lost",
            "truncated": "health.truncated",
        },
    ),
    "findings": ("$.findings", dict.fromkeys(("id", "class", "title", "severity", "headroom_ms"))),
    "recommendations": (
        "$.recommendations",
        dict.fromkeys(("id", "class", "action", "predicted_step_ms", "predicted_speedup", "basis")),
    ),
    "kernels": (
        "$.tables.kernels",
        dict.fromkeys(
            (
                "name",
                "full_name",
                "class",
                "op",
                "calls",
                "total_ms",
                "share_of_step",
                "mean_us",
                "bound_by",
            )
        ),
    ),
    "ops": (
        "$.tables.ops",
        dict.fromkeys(
            (
                "name",
                "kind",
                "shapes",
                "calls",
                "host_total_ms",
                "host_self_ms",
                "device_total_ms",
                "device_self_ms",
                "share_of_step",
            )
        ),
    ),
    "conditions": ("$.tables.conditions", dict.fromkeys(("name", "value", "spoils"))),
}
"""Views over the report's JSON, which is kept once: the list that each reads, and where its columns
are in a row."""


def create_tables(db: "Database") -> None:
    """Runs, tags, metrics and reports."""
    _execute(db, TABLES)


def views(db: "Database") -> None:
    """Runs with their tags, and metrics over runs."""
    _execute(db, VIEWS)


def _execute(db: "Database", statements: Sequence[str]) -> None:
    for statement in statements:
        db.execute(statement)


def json_views(db: "Database") -> None:
    """Rows of the report's JSON as views of it. Files from before the first release have copies of
    them as tables."""
    db.execute("DROP VIEW IF EXISTS finding_history")
    for name, (rows, columns) in FROM_JSON.items():
        fields = ", ".join(
            f"json_extract(row.value, '$.{place or column}') AS {column}"
            for column, place in columns.items()
        )
        db.execute(f"DROP TABLE IF EXISTS {name}")
        select = f"SELECT reports.run_id AS run_id, row.key + 1 AS position, {fields}"
        db.execute(
            f"CREATE VIEW {name} AS {select} FROM reports, json_each(reports.json, '{rows}') AS row"
        )
    db.execute(FINDING_HISTORY)


def one_basis(db: "Database") -> None:
    """Figures of the step that each report speaks of; the recorded ones under names of their
    own."""
    for run in db.query("SELECT run_id, json FROM reports"):
        number = run["run_id"]
        spoken = _spoken(orjson.loads(run["json"]))
        stored = {
            row["name"]: row
            for row in db.query("SELECT name, value, unit FROM metrics WHERE run_id = ?", [number])
        }
        for name, value in spoken.items():
            if name not in stored:
                continue
            recorded = [number, f"recorded.{name}", stored[name]["value"], stored[name]["unit"]]
            db.execute("INSERT OR IGNORE INTO metrics VALUES (?, ?, ?, ?)", recorded)
            changed = "UPDATE metrics SET value = ? WHERE run_id = ? AND name = ?"
            db.execute(changed, [value, number, name])
        if spoken:
            step = [spoken["step_time_ms.mean"], spoken["gpu_idle_share"], number]
            db.execute("UPDATE runs SET step_time_ms = ?, gpu_idle_share = ? WHERE id = ?", step)


def _spoken(report: dict[str, Any]) -> dict[str, float]:
    """Figures of the step that a stored report speaks of, where that is the one without the
    profiler."""
    metrics = report["metrics"]
    known = metrics.get("unprofiled")
    if report["summary"].get("basis") != "unprofiled" or not known or not known["step_time_ms"]:
        return {}
    step_ms = known["step_time_ms"]
    idle_share = known["budget_ms"]["idle"] / step_ms
    found = {"step_time_ms.mean": step_ms, "step_time_ms.median": step_ms}
    for part in ("budget_ms", "idle_ms"):
        found |= {f"{part}.{name}": value for name, value in known[part].items()}
    found |= {"gpu_idle_share": idle_share, "gpu_busy_share": 1.0 - idle_share}
    mfu = (metrics.get("utilisation") or {}).get("mfu")
    return found if mfu is None else found | {"roofline.mfu": mfu}


def summary_names(db: "Database") -> None:
    """The names of the report's JSON: `summary.` is the step that the report speaks of, and what
    had `recorded.` before its name is the figure of that name."""
    for run in db.query("SELECT run_id, json FROM reports"):
        number = run["run_id"]
        report = orjson.loads(run["json"])
        metrics = report["metrics"]
        _strip_recorded(db, number)
        for name, value, unit in _of_summary(report):
            row = [number, name, value, unit]
            db.execute("INSERT OR REPLACE INTO metrics VALUES (?, ?, ?, ?)", row)
        mean_ms = (metrics.get("step_time_ms") or {}).get("mean")
        recorded = [mean_ms, metrics.get("gpu_idle_share"), number]
        db.execute("UPDATE runs SET step_time_ms = ?, gpu_idle_share = ? WHERE id = ?", recorded)
    for view in ("finding_history", "metric_history", "run_overview"):
        db.execute(f"DROP VIEW {view}")
    _execute(db, OVERVIEWS)


def _strip_recorded(db: "Database", number: int) -> None:
    """The recorded figures of a run under their own names."""
    sql = "SELECT name, value, unit FROM metrics WHERE run_id = ? AND name LIKE 'recorded.%'"
    for row in list(db.query(sql, [number])):
        db.execute("DELETE FROM metrics WHERE run_id = ? AND name = ?", [number, row["name"]])
        name = str(row["name"]).removeprefix("recorded.")
        kept = [number, name, row["value"], row["unit"]]
        db.execute("INSERT OR REPLACE INTO metrics VALUES (?, ?, ?, ?)", kept)


def _of_summary(report: dict[str, Any]) -> list[tuple[str, float, str]]:
    """Name, value and unit of the figures of a stored report's summary."""
    summary = report["summary"]
    step = report["metrics"]
    if summary.get("basis") == "unprofiled":
        step = step.get("unprofiled") or {}
    found = [("summary.confidence", summary.get("confidence"), "share")]
    step_ms = summary.get("step_ms")
    found.append(("summary.step_ms", step_ms, "ms"))
    budget = step.get("budget_ms") or {}
    for part in ("budget_ms", "idle_ms"):
        times = step.get(part) or {}
        found += [(f"summary.{part}.{name}", value, "ms") for name, value in times.items()]
    if budget and step_ms:
        found.append(("summary.idle_share", budget["idle"] / step_ms, "share"))
    return [(name, value, unit) for name, value, unit in found if value is not None]
