"""Recordings of any size, made of real ones and kept in a folder: plain, gzipped, and as ranks of
one run."""

import gzip
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.measured import MB
from benchmarks.replicate import replicate

TRACES = Path(__file__).parent.parent.parent / "shared" / "traces"
LARGE = TRACES / "large" / "gpt_50_steps.json.gz"
SMALL = TRACES / "kineto" / "tiny_mlp_infer.base.json.gz"
EXPORT = TRACES / "nsys" / "slow_dataloader.base.sqlite.gz"
TWO_RANKS = [TRACES / "ranks2" / f"ddp_accum_sync.base.rank{rank}.json.gz" for rank in range(2)]


def check_sources() -> None:
    """Ends the program where the recordings that others are made of are missing."""
    if not LARGE.exists():
        sys.exit("the shared recordings are not beside the repository")


def recordings(folder: Path, megabytes: list[float]) -> list[Path]:
    """The 155 MB recording, unpacked, and its replicas of at least so many MB, smallest first; made
    once."""
    folder.mkdir(parents=True, exist_ok=True)
    original = _made(folder / LARGE.name.removesuffix(".gz"), lambda path: _unpack(LARGE, path))
    paths = [original]
    for size in megabytes:
        copies = -(-int(size * MB) // original.stat().st_size)
        if copies > 1:
            paths.append(_replica(original, folder / f"{original.stem}.x{copies}.json", copies))
    return paths


def gzipped(path: Path) -> Path:
    """The recording, compressed as profilers do; made once."""

    def pack(target: Path) -> None:
        with path.open("rb") as source, gzip.open(target, "wb", compresslevel=6) as out:
            shutil.copyfileobj(source, out, MB)

    return _made(path.with_name(f"{path.name}.gz"), pack)


def same_again(path: Path) -> Path:
    """The recording under another name, for commands that take two."""
    again = path.with_name(f"again.{path.name}")
    if not again.exists():
        os.link(path, again)
    return again


def rank_folder(folder: Path, ranks: int, megabytes: float) -> Path:
    """A folder of so many ranks of one run, each of about so many MB, of two real ones in turn;
    made once."""
    target = folder / f"ranks{ranks}x{megabytes:g}"
    target.mkdir(parents=True, exist_ok=True)
    if len(list(target.glob("*.json"))) < ranks:
        sources = [_long_rank(folder, number, megabytes) for number in range(len(TWO_RANKS))]
        for rank in range(ranks):
            source = sources[rank % len(sources)]
            _made(
                target / f"trace.rank{rank}.json",
                lambda path, s=source, r=rank: _rank_of(s, path, r, ranks),
            )
        for source in sources:
            source.unlink()
    return target


def _long_rank(folder: Path, number: int, megabytes: float) -> Path:
    plain = folder / f"rank{number}.json"
    _unpack(TWO_RANKS[number], plain)
    copies = max(round(megabytes * MB / plain.stat().st_size), 1)
    long = folder / f"rank{number}.long"
    replicate(plain, long, copies)
    plain.unlink()
    return long


def _rank_of(source: Path, target: Path, rank: int, ranks: int) -> None:
    """The recording of a rank of two as one of a rank of many, that all meet in the same
    collectives."""
    text = source.read_text(encoding="utf-8")
    every = ", ".join(map(str, range(ranks)))
    own = rank % len(TWO_RANKS)
    for was, becomes in (
        (f'"rank": {own}, "world_size": 2', f'"rank": {rank}, "world_size": {ranks}'),
        ('"pg_size": 2, "ranks": [0, 1]', f'"pg_size": {ranks}, "ranks": [{every}]'),
        ('"Process Group Ranks": "[0, 1]"', f'"Process Group Ranks": "[{every}]"'),
        ('"Group size": 2', f'"Group size": {ranks}'),
        (f'"Rank": {own}', f'"Rank": {rank}'),
    ):
        text = text.replace(was, becomes)
    target.write_text(text, encoding="utf-8")


def _replica(original: Path, target: Path, copies: int) -> Path:
    return _made(target, lambda path: replicate(original, path, copies))


def _unpack(source: Path, target: Path) -> None:
    with gzip.open(source, "rb") as packed, target.open("wb") as out:
        shutil.copyfileobj(packed, out, MB)


def _made(path: Path, make: Callable[[Path], None]) -> Path:
    """The file, made if it is not there; never left half made under its name."""
    if not path.exists():
        unfinished = path.with_suffix(".part")
        make(unfinished)
        unfinished.rename(path)
    return path
