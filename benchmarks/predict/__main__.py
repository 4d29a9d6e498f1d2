"""`python -m benchmarks.predict record OUT`, `score OUT...`, `rows OUT...` and `ranges ROWS.csv`.

`record`, on a host with a GPU, records each program one time at its base, predicts it at the other
settings, writes the predictions down with their hash, and then times these. Each program has a
process of its own; all load first and then take turns. OUT gets `results.json`, the predictions as
they were sealed (`sealed.txt` has the hashes, with the time) and the recordings, packed.
`--device cpu --quick` tries the programs in small. `score` prints how far predictions are off, next
to naive ones, of one or several OUTs (of two GPUs: each program's base there is a target here). `rows`
prints the cases as CSV, to be kept; `ranges` holds them against ranges made of the other programs'."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.predict.names import program_names
from benchmarks.predict.ranges import study
from benchmarks.predict.score import as_csv, cases, from_csv, printed

PARTS = ("record", "time")
LOADING_S = 90.0
LIMIT_S = 60.0
LEFT_S = 12.0


def record(out: Path, names: list[str], seconds: float) -> None:
    """Give each program its turns."""
    from benchmarks.pairs.__main__ import pack

    until = time.monotonic() + seconds
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        turns = [(name, part) for name in names for part in PARTS]
        processes = {one: _start(*one, folder) for one in turns}
        loading = time.monotonic() + LOADING_S
        while time.monotonic() < loading and not all(
            (folder / f"{name}.{part}.ready").exists() or one.poll() is not None
            for (name, part), one in processes.items()
        ):
            time.sleep(0.2)
        print(f"loaded, {until - time.monotonic():.0f} s left", flush=True)
        try:
            for (name, part), process in processes.items():
                begin = time.monotonic()
                said = _turn(name, part, process, folder, until)
                print(f"{time.monotonic() - begin:5.1f} s {name} {part} {said}", flush=True)
                _collect(folder, out, names)
        finally:
            for process in processes.values():
                if process.poll() is None:
                    process.kill()
        for line in pack(folder / "captures", out):
            print("left out:", line)


def _start(name: str, part: str, folder: Path) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.{part}.log").open("w") as log:
        words = [sys.executable, "-m", "benchmarks.predict.one", part, name, str(folder)]
        return subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)


def _turn(
    name: str, part: str, process: subprocess.Popen[bytes], folder: Path, until: float
) -> str:
    left = until - time.monotonic() - LEFT_S
    if left < LEFT_S:
        return "no time was left"
    (folder / f"{name}.{part}.go").touch()
    try:
        code = process.wait(min(LIMIT_S * (10 if os.environ.get("PREDICT_QUICK") else 1), left))
    except subprocess.TimeoutExpired:
        process.kill()
        return "took too long"
    if code == 0:
        return "done"
    lines = (folder / f"{name}.{part}.log").read_text(errors="replace").strip().splitlines()
    return f"exit {code}: {(lines or [''])[-1][-300:]}"


def _collect(folder: Path, out: Path, names: list[str]) -> None:
    """The results so far, and the hashes as they were printed."""
    rows = []
    for name in names:
        files = [folder / f"{name}.{part}.json" for part in PARTS]
        row: dict[str, Any] = {"timed": {}}
        for file in files:
            row |= json.loads(file.read_text()) if file.exists() else {}
        if "predictions" in row:
            rows.append(row)
    (out / "results.json").write_text(json.dumps(rows, indent=1))
    lines = [
        line
        for name in names
        for line in (folder / f"{name}.record.log").read_text(errors="replace").splitlines()
        if line.startswith("sealed ")
    ]
    (out / "sealed.txt").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Record or score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("record", "score", "rows", "ranges"))
    parser.add_argument("out", type=Path, nargs="+")
    parser.add_argument("--programs", default="", help="names, with commas between them")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=540.0)
    options = parser.parse_args()
    told = {
        "score": lambda: printed(options.out),
        "rows": lambda: as_csv(list(cases(options.out))),
        "ranges": lambda: study(from_csv(options.out[0].read_text())),
    }
    if options.what in told:
        print(told[options.what]())
        return
    os.environ["PREDICT_DEVICE"] = options.device
    if options.quick:
        os.environ["PREDICT_QUICK"] = "1"
    wanted = [one for one in options.programs.split(",") if one]
    names = [one for one in program_names() if not wanted or one in wanted]
    record(options.out[0], names, options.seconds)
    print(printed(options.out[:1]))


if __name__ == "__main__":
    main()
