"""`python -m benchmarks.predict record OUT`, `score OUT...`, `rows OUT...` and `ranges ROWS.csv`.

`record`, on a host with a GPU, records each program one time at its base, predicts it at the other
settings, writes the predictions down with their hash, and then times these. Each program has two
processes of its own; all load first and then take turns. OUT gets a line in `results.jsonl` for each
program as soon as it is timed, the hashes with their time in `sealed.txt`, and the recordings,
packed. `--part 1/2` and `--part 2/2`, beside each other with the same OUT, share the programs, the
GPUs and the cores; `--set asked` takes programs of other models, at settings that people ask about,
`--set formats` others again, asked for the number format first;
`--together` takes the programs of two ranks, on two GPUs. `--device cpu --quick` tries the programs
in small. `score` prints how far predictions are off, next to naive ones, of one
or several OUTs (of two GPUs: each program's base there is a target here). `rows` prints the cases as
CSV, to be kept; `ranges` holds them against ranges made of the other programs'."""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.predict.names import SETS, TOGETHER, program_names
from benchmarks.predict.ranges import study
from benchmarks.predict.score import as_csv, cases, from_csv, printed
from benchmarks.predict.turns import Schedule, own_cores

PACKS = 2  # files of recordings of one part
PACKING_S = 5.0


def record(out: Path, names: Sequence[str], seconds: float, *, together: bool, label: str) -> None:
    """Give each program its turns, and pack the recordings."""
    from benchmarks.pairs.__main__ import pack

    until = time.monotonic() + seconds - PACKING_S
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        schedule = Schedule(names, folder, out, until)
        try:
            schedule.load()
            print(f"loaded, {until - time.monotonic():.0f} s left", flush=True)
            schedule.run(seal_all_first=together)
            schedule.trace_kernels()
        finally:
            schedule.end()
        packs = 1 if together else PACKS
        for line in pack(folder / "captures", out, stem=f"captures.{label}.", packs=packs):
            print("left out:", line)


def _part(text: str) -> tuple[int, int]:
    """The number of a part, from 0, and how many there are."""
    one, _, count = text.partition("/")
    part = int(one) - 1
    if not 0 <= part < int(count):
        raise argparse.ArgumentTypeError(f"{text} is no part like 1/2")
    return part, int(count)


def _record(options: argparse.Namespace) -> None:
    """Take this part's programs, GPU and cores."""
    os.environ["PREDICT_DEVICE"] = options.device
    if options.quick:
        os.environ["PREDICT_QUICK"] = "1"
    part, parts = options.part
    own_cores(part, parts)
    if parts > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(part)
    wanted = [one for one in options.programs.split(",") if one]
    every = program_names(TOGETHER if options.together else SETS[options.set])
    names = [one for one in every if not wanted or one in wanted][part::parts]
    label = "together" if options.together else str(part)
    record(options.out[0], names, options.seconds, together=options.together, label=label)


def main() -> None:
    """Record or score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("record", "score", "rows", "ranges"))
    parser.add_argument("out", type=Path, nargs="+")
    parser.add_argument("--programs", default="", help="names, with commas between them")
    parser.add_argument("--part", type=_part, default=(0, 1), help="1/2: the first half of them")
    parser.add_argument("--set", choices=SETS, default="first", help="which programs")
    parser.add_argument("--together", action="store_true", help="programs of two ranks")
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
    _record(options)
    print(printed(options.out[:1]))


if __name__ == "__main__":
    main()
