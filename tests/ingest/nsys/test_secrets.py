"""Exports hold the environment, the command line and the program's output: none of it leaves the
reader."""

from __future__ import annotations

import logging
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from tests.nsys_builder import Export, global_pid, global_tid, small_run
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.ingest import nsys
from traceanalyzer.trace import Table

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.trace import Trace

SECRET = "hunter2"  # noqa: S105
WORDS = (SECRET, "swordfish", "/home/alice", "WANDB_API_KEY", "--password", "s3cr3t-output")


def plant(export: Export) -> Export:
    """Put secrets wherever nsys puts them."""
    export.captured("PROCESS_0:ENVIRONMENT_VARIABLE", f"WANDB_API_KEY={SECRET}")
    export.captured("PROCESS_0:COMMAND", "/home/alice/bin/train")
    export.captured("PROCESS_0:ARGUMENT_0", f"--password={SECRET}")
    export.captured("DEVICE_DISPLAY_NAME", "node1")
    environment = f"PATH=/home/alice/bin\nWANDB_API_KEY={SECRET}\nPASSPHRASE=swordfish"
    export.add(
        "TARGET_INFO_SYSTEM_ENV",
        devStateName="DeviceEnvironment",
        name="Environment",
        value=environment,
    )
    output = export.text(f"login with s3cr3t-output {SECRET}")
    export.add(
        "ProcessStreams",
        globalPid=global_pid(),
        filenameId=export.text("/home/alice/out"),
        contentId=output,
    )
    export.text(f"/home/alice/.netrc {SECRET}")
    export.add(
        "PROCESSES",
        globalPid=global_pid(),
        name=f"HF_TOKEN={SECRET} /home/alice/bin/train --password {SECRET}",
    )
    export.add("ThreadNames", nameId=export.text("/home/alice/worker"), globalTid=global_tid())
    library = export.text("dlopen(/home/alice/lib/libx.so)")
    export.add("PROFILER_OVERHEAD", start=10, end=20, globalTid=global_tid(), nameId=library)
    for text in (
        "Cannot read /home/alice/data and '/home/alice/my data/x': events may be lost.",
        f"The variable WANDB_API_KEY={SECRET} is set",
        "Passphrase swordfish is weak",
        "Token AbCdEfGhIjKlMnOpQrStUvWxYz0123 used by alice@example.com",
    ):
        export.add("DIAGNOSTIC_EVENT", timestamp=1, severity=2, text=text, globalPid=global_pid())
    return export


def everything(trace: Trace) -> str:
    """All text of a trace."""
    parts = [
        repr(getattr(trace, f.name))
        for f in fields(trace)
        if not isinstance(getattr(trace, f.name), Table)
    ]
    return "\n".join([*trace.strings, *parts])


@pytest.mark.parametrize("schema", ["3.4.0", "3.13.2", "3.24.0", "3.25.0"])
def test_no_secret_reaches_the_trace_or_the_log(
    schema: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG):
        (trace,) = nsys.read(plant(small_run(schema)).write(tmp_path / "export.sqlite"))
    shown = everything(trace).replace(str(tmp_path), "") + caplog.text + "".join(capfd.readouterr())
    assert not [word for word in (*WORDS, "alice", "AbCdEf") if word in shown]


def test_diagnostics_are_quoted_without_private_parts(tmp_path: Path) -> None:
    (trace,) = nsys.read(plant(small_run("3.24.0")).write(tmp_path / "export.sqlite"))
    quoted = [note for note in trace.health.notes if note.startswith("nsys reports")]
    assert sorted(quoted) == [
        "nsys reports: Cannot read <removed> and <removed>: events may be lost.",
        "nsys reports: Passphrase <removed> is weak",
        "nsys reports: The variable <removed> is set",
        "nsys reports: Token <removed> used by <removed>",
    ]


def test_names_of_errors_are_quoted_and_what_a_driver_lacks(tmp_path: Path) -> None:
    export = small_run("3.24.0")
    export.add(
        "DIAGNOSTIC_EVENT",
        severity=3,
        text="ActivityFlushAll returned 2: CUPTI_ERROR_INVALID_DEVICE",
    )
    export.add(
        "DIAGNOSTIC_EVENT",
        severity=2,
        text="driver version (13.1) is not supported",
        globalPid=global_pid(9),
    )
    export.add(
        "DIAGNOSTIC_EVENT",
        severity=3,
        text="Key CUPTI_ERROR_INVALID_DEVICE_aB3dE5fG7hI9kL1mN3pQ5 refused",
    )
    (trace,) = nsys.read(export.write(tmp_path / "export.sqlite"))
    quoted = [
        note.removeprefix("nsys reports: ")
        for note in trace.health.notes
        if note.startswith("nsys reports")
    ]
    assert "ActivityFlushAll returned 2: CUPTI_ERROR_INVALID_DEVICE" in quoted
    assert any("driver version (13.1) is not supported" in text for text in quoted)
    assert "Key <removed> refused" in quoted


def test_information_is_not_quoted_and_long_lists_are_cut(tmp_path: Path) -> None:
    export = small_run("3.24.0").add("DIAGNOSTIC_EVENT", severity=1, text="Profiling has started")
    for i in range(8):
        export.add("DIAGNOSTIC_EVENT", severity=3, text=f"Problem {i}")
        export.add("DIAGNOSTIC_EVENT", severity=3, text=f"Problem {i}")
    (trace,) = nsys.read(export.write(tmp_path / "export.sqlite"))
    quoted = [note for note in trace.health.notes if note.startswith("nsys reports")]
    assert quoted == [
        *(f"nsys reports: Problem {i}" for i in range(5)),
        "nsys reports 3 more warnings",
    ]


@pytest.mark.parametrize("damage", ["nothing to analyse", "cut", "not an export"])
def test_no_secret_reaches_an_error(damage: str, tmp_path: Path) -> None:
    path = plant(Export("3.24.0", lazy=False)).write(tmp_path / "export.sqlite")
    if damage == "cut":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 4])
    if damage == "not an export":
        import sqlite3

        db = sqlite3.connect(path)
        db.execute("DROP TABLE StringIds")
        db.commit()
        db.close()
    with pytest.raises(TraceAnalyzerError) as caught:
        nsys.read(path)
    shown = repr(caught.value) + repr(caught.value.__cause__)
    assert not [word for word in WORDS if word in shown.replace(str(tmp_path), "")]
