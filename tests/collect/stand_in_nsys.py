"""Stands in for `nsys`: `profile` runs the command and leaves a report, `export` makes SQLite full
of secrets."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.nsys_builder import small_run

SECRET = "hunter2"  # noqa: S105


def secret_export(path, schema="3.24.0", steps=0):
    export = small_run(schema)
    export.captured("PROCESS_0:ENVIRONMENT_VARIABLE", f"TOKEN={SECRET}")
    export.captured("PROCESS_0:ARGUMENT_1", f"--token={SECRET}")
    export.captured("CAPTURE_EVENT_TYPE", "Cuda").captured("CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node")
    export.add(
        "TARGET_INFO_SYSTEM_ENV",
        devStateName="DeviceEnvironment",
        name="env",
        value=f"TOKEN={SECRET}",
    )
    export.add(
        "ProcessStreams",
        filenameId=export.text(f"/home/{SECRET}/out"),
        contentId=export.text(f"said {SECRET}"),
    )
    export.add("PROCESSES", globalPid=1, pid=2, name=f"/home/{SECRET}/bin/bash -c x")
    export.add(
        "DIAGNOSTIC_EVENT", timestamp=1, severity=2, text=f"cannot read /home/{SECRET}/file.txt (2)"
    )
    export.nvtx(96, 111, f"load /home/{SECRET}/data/set.bin")
    export.nvtx(97, 110, None, textId=export.text(f"save C:\\Users\\{SECRET}\\model.pt"))
    for step in range(steps):
        export.nvtx(200 + step, 201 + step, f"step {step}")
    return export.write(path)


def main():
    verb, *words = sys.argv[1:]
    if "--help" in words:
        print(os.environ.get("STAND_IN_HELP", ""))
        return 0
    with Path(os.environ["STAND_IN_LOG"]).open("a") as log:
        log.write(json.dumps([verb, *words]) + "\n")
    flags = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
    if verb == "export":
        if os.environ.get("STAND_IN_SAYS") == "error":
            return 1
        marked = Path(words[-1]).read_text().split()[0]
        secret_export(Path(flags["output"]), steps=int(marked) if marked.isdigit() else 0)
        return 0
    Path(flags["output"] + ".qdstrm").write_text(f"TOKEN={SECRET}")
    command = words[next(i for i, word in enumerate(words) if not word.startswith("--")) :]
    status = subprocess.call(command)
    if "capture-range" not in flags:
        Path(flags["output"] + ".nsys-rep").write_text("report")
    return status


if __name__ == "__main__":
    sys.exit(main())
