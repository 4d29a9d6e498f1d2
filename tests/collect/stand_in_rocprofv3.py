"""Stands in for `rocprofv3`: runs the command and leaves a database full of secrets for it, and an
empty one."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.rocpd_builder import Rocpd, small_run

SECRET = "hunter2"  # noqa: S105


def secret_run(path, schema="3.0.2"):
    made = small_run(schema)
    (process,) = made.rows["info_process"]
    process["command"] = f"/home/{SECRET}/bin/python train.py --token={SECRET}"
    process["environment"] = process["extdata"] = json.dumps({"TOKEN": SECRET})
    made.rows["info_node"][0] |= {"hostname": SECRET, "machine_id": SECRET, "domain_name": SECRET}
    made.add("info_code_object", uri=f"file:///home/{SECRET}/lib/kernels.so#offset=1")
    made.add("arg", event_id=1, position=0, name="path", value=SECRET)
    made.text(f"/home/{SECRET}/lib/kernels.so")
    made.region(
        "MARKER_CORE_RANGE_API",
        "roctxThreadRangeA",
        5,
        6,
        900,
        message=f"load /home/{SECRET}/data/set.bin",
    )
    return made.write(path)


def main():
    words = sys.argv[1:]
    Path(os.environ["STAND_IN_LOG"]).write_text(json.dumps(words))
    work = Path(words[words.index("-d") + 1])
    status = subprocess.call(words[words.index("--") + 1 :])
    if os.environ.get("STAND_IN_SAYS") != "nothing":
        work.mkdir(parents=True, exist_ok=True)
        secret_run(work / "77_results.db")
        Rocpd(pid=76).write(work / "76_results.db")
        (work / "config.json").write_text(SECRET)
    return status


if __name__ == "__main__":
    sys.exit(main())
