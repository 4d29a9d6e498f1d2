"""Writes rocpd databases by hand, in the layout of any schema, with the columns that rocprofv3
writes."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

SCHEMAS = ("3", "3.0.2", "3.0.4", "4.1.0")
_KEY = '"id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT'
_OWNER = ("nid", "pid")
_SIZES = [f"{what}_size_{axis}" for what in ("workgroup", "grid") for axis in "xyz"]


def _tables(schema: str) -> dict[str, tuple[str, ...]]:
    """The columns of each table besides `id` and `guid`."""
    new = schema.startswith("4")
    lane = ("track_id",) if new else (*_OWNER, "tid", "agent_id", "queue_id", "stream_id")
    graph = ("graph_exec_id", "graph_node_id") if schema >= "3.0.2" and not new else ()
    return {
        "metadata": ("tag", "value"),
        "string": ("string",),
        "info_node": ("hash", "machine_id", "hostname", "domain_name"),
        "info_process": ("nid", "ppid", "pid", "command", "environment", "extdata"),
        "info_thread": ("nid", "ppid", "pid", "tid", "name"),
        "info_agent": (*_OWNER, "type", "absolute_index", "type_index", "product_name", "extdata"),
        **({"info_category": ("name",)} if new else {}),
        "info_code_object": (*_OWNER, "uri"),
        "info_kernel_symbol": (*_OWNER, "kernel_name", "display_name"),
        "track": (
            *_OWNER,
            "tid",
            *(("agent_id", "queue_id", "stream_id") if new else ()),
            "name_id",
        ),
        "event": ("category_id", "stack_id", "parent_stack_id", "correlation_id", "extdata"),
        "arg": ("event_id", "position", "name", "value"),
        "region": (
            *(("track_id",) if new else (*_OWNER, "tid")),
            "start",
            "end",
            "name_id",
            "event_id",
        ),
        "kernel_dispatch": (
            *lane,
            "kernel_id",
            "dispatch_id",
            "start",
            "end",
            "private_segment_size",
            "group_segment_size",
            *_SIZES,
            "region_name_id",
            "event_id",
            *graph,
        ),
        "memory_copy": (
            *(("track_id",) if new else (*_OWNER, "tid")),
            "start",
            "end",
            "name_id",
            "dst_agent_id",
            "src_agent_id",
            "size",
            *(() if new else ("queue_id", "stream_id")),
            "event_id",
        ),
    }


class Rocpd:
    """The database of one process, or of several. Agents are a CPU (0) and two GPUs (1, 2)."""

    def __init__(
        self, schema: str = "3.0.2", uuid: str = "_0198aa", pid: int = 77, *, keyless: bool = False
    ) -> None:
        self.schema = schema
        self.uuid = uuid
        self.pid = pid
        self.rows: dict[str, list[dict[str, Any]]] = {table: [] for table in _tables(schema)}
        self.keyless = keyless
        self._texts: dict[tuple[str, str], int] = {}
        self.add("metadata", tag="schema_version", value=schema)
        self.add("info_node", hash=1, machine_id="m1", hostname="host0", domain_name="")
        self.process(pid)
        for i, kind in enumerate(("CPU", "GPU", "GPU")):
            about = {
                "cu_count": 304,
                "gfx_target_version": 90402,
                "mem_banks": [{"size_in_bytes": 206141652992}],
            }
            self.add(
                "info_agent",
                id=i,
                type=kind,
                absolute_index=i,
                type_index=max(i - 1, 0),
                product_name="AMD Instinct MI300X",
                extdata=json.dumps(about),
            )
        self.add("info_thread", id=500, tid=4242)

    def process(self, pid: int, command: str = "/opt/bin/python train.py --token=x") -> None:
        self.add(
            "info_process", id=pid, nid=1, pid=pid, command=command, environment="{}", extdata="{}"
        )

    def add(self, table: str, **row: Any) -> int:
        rows = self.rows[table]
        rows.append({"id": len(rows) + 1, **row})
        return rows[-1]["id"]

    def text(self, text: str, table: str = "string") -> int:
        column = "string" if table == "string" else "name"
        if (table, text) not in self._texts:
            self._texts[table, text] = self.add(table, **{column: text})
        return self._texts[table, text]

    def event(self, category: str, stack: int, parent: int = 0, message: str = "") -> int:
        table = "info_category" if "info_category" in self.rows else "string"
        extra = json.dumps({"message": message}) if message else "{}"
        return self.add(
            "event",
            category_id=self.text(category, table),
            stack_id=stack,
            parent_stack_id=parent,
            correlation_id=0,
            extdata=extra,
        )

    def lane(self, **where: Any) -> dict[str, Any]:
        where = {"pid": self.pid, "tid": 500, **where}
        if not self.schema.startswith("4"):
            return where
        known = [row for row in self.rows["track"] if {**row, "id": 0} == {**where, "id": 0}]
        return {"track_id": known[0]["id"] if known else self.add("track", **where)}

    def kernel(
        self,
        start: int,
        end: int,
        name: str = "gemm",
        stack: int = 0,
        *,
        agent: int = 1,
        queue: int = 1,
        stream: int = 1,
        pid: int | None = None,
        **more: Any,
    ) -> Rocpd:
        known = [
            row["id"] for row in self.rows["info_kernel_symbol"] if row["display_name"] == name
        ]
        kernel = (
            known[0]
            if known
            else self.add("info_kernel_symbol", kernel_name=f"_Z{name}.kd", display_name=name)
        )
        sizes = dict(zip(_SIZES, (256, 1, 1, 1024, 2, 1), strict=True))
        lane = self.lane(agent_id=agent, queue_id=queue, stream_id=stream, pid=pid or self.pid)
        event = self.event("KERNEL_DISPATCH", stack)
        number = len(self.rows["kernel_dispatch"])
        shape = {"group_segment_size": 512, **sizes, **more}
        self.add(
            "kernel_dispatch",
            **lane,
            kernel_id=kernel,
            dispatch_id=number,
            start=start,
            end=end,
            event_id=event,
            **shape,
        )
        return self

    def copy(
        self,
        start: int,
        end: int,
        name: str,
        stack: int,
        *,
        source: int,
        target: int,
        size: int = 4096,
    ) -> Rocpd:
        lane = self.lane() if self.schema.startswith("4") else {**self.lane(), "stream_id": 1}
        self.add(
            "memory_copy",
            **lane,
            start=start,
            end=end,
            name_id=self.text(name),
            src_agent_id=source,
            dst_agent_id=target,
            size=size,
            event_id=self.event("MEMORY_COPY", stack),
        )
        return self

    def region(
        self,
        category: str,
        name: str,
        start: int,
        end: int,
        stack: int,
        parent: int = 0,
        message: str = "",
        pid: int | None = None,
    ) -> Rocpd:
        event = self.event(category, stack, parent, message)
        self.add(
            "region",
            **self.lane(pid=pid or self.pid),
            start=start,
            end=end,
            name_id=self.text(name),
            event_id=event,
        )
        return self

    def write(self, path: Path) -> Path:
        """Write the database, or add to the one that is there, as `rocpd merge` does."""
        with closing(sqlite3.connect(path)) as database:
            for table, columns in _tables(self.schema).items():
                key = "id BIGINT" if self.keyless else _KEY
                names = ["id", *(["guid"] if table != "metadata" else []), *columns]
                typed = [key, *(f'"{name}" {_type(name)}' for name in names[1:])]
                database.execute(f'CREATE TABLE "rocpd_{table}{self.uuid}" ({", ".join(typed)})')
                rows = [
                    [row.get(name, self.uuid if name == "guid" else None) for name in names]
                    for row in self.rows[table]
                ]
                marks = ", ".join("?" * len(names))
                database.executemany(
                    f'INSERT INTO "rocpd_{table}{self.uuid}" VALUES ({marks})', rows
                )
            database.execute("DROP VIEW IF EXISTS kernels")
            database.execute("CREATE VIEW kernels AS SELECT 1 AS id, 0 AS start, 99 AS end")
            database.commit()
        return path


def _type(name: str) -> str:
    texts = (
        "guid",
        "string",
        "name",
        "display_name",
        "kernel_name",
        "command",
        "hostname",
        "tag",
        "value",
        "type",
    )
    return (
        "TEXT"
        if name in texts
        else 'JSONB DEFAULT "{}"'
        if name in ("extdata", "environment")
        else "BIGINT"
    )


def small_run(schema: str = "3.0.2", steps: int = 2, **options: Any) -> Rocpd:
    """Steps of a kernel launched by HIP, one by HSA within HIP, a copy, a marker; each second one
    on the other GPU."""
    made = Rocpd(schema, **options)
    for step in range(steps):
        base = 1_000_000 * (step + 1)
        stack = 100 * step
        made.region(
            "MARKER_CORE_RANGE_API",
            "roctxThreadRangeA",
            base,
            base + 900_000,
            stack + 1,
            message=f"step {step}",
        )
        made.region("HIP_RUNTIME_API_EXT", "hipLaunchKernel", base + 1_000, base + 5_000, stack + 2)
        made.region("HIP_RUNTIME_API_EXT", "hipGraphLaunch", base + 6_000, base + 20_000, stack + 3)
        made.region(
            "HSA_CORE_API",
            "hsa_signal_store_screlease",
            base + 7_000,
            base + 8_000,
            stack + 4,
            stack + 3,
        )
        made.region(
            "HIP_RUNTIME_API_EXT", "hipMemcpyWithStream", base + 400_000, base + 700_000, stack + 5
        )
        made.region(
            "HIP_RUNTIME_API_EXT", "hipStreamSynchronize", base + 700_000, base + 890_000, stack + 6
        )
        made.kernel(base + 200_000, base + 320_000, "softmax", stack + 4, agent=1 + step % 2)
        made.kernel(base + 10_000, base + 200_000, "gemm", stack + 2, agent=1 + step % 2)
        made.copy(
            base + 420_000,
            base + 690_000,
            "MEMORY_COPY_DEVICE_TO_HOST",
            stack + 5,
            source=1 + step % 2,
            target=0,
        )
    return made
