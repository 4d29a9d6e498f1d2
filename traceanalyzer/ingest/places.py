"""Where recordings lie: files of this machine, or addresses that fsspec reads (`s3://`, `gs://`,
`hf://`, `https://`).

A remote object is fetched to a temporary file when it is read, and removed after."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from traceanalyzer.base import TraceAnalyzerError, UnreadableInputError
from traceanalyzer.base.extras import how_to_install
from traceanalyzer.base.files import replacing
from traceanalyzer.ingest.cache.beside import may_be_beside
from traceanalyzer.ingest.folders import broken_in, iteration_in, recordings_in
from traceanalyzer.ingest.stream import cannot_open
from traceanalyzer.trace import Failure

_LOCAL = "file://"
AT_ONCE = 256  # small objects that are asked for at the same time


class RecordingPlace(NamedTuple):
    """A file or an object."""

    url: str  # as a user names it
    name: str  # in its system of files
    remote: bool  # whether it is another system's than this machine's
    size: int
    stamp: str  # changes when the content does

    @property
    def path(self) -> Path:
        """Of a file of this machine."""
        return Path(self.name)


def is_remote(path: str) -> bool:
    """Whether this is an address, not a path."""
    return "://" in path and not path.startswith(_LOCAL)


def local_of(path: str) -> str:
    """The path of `file://...`; others as they are."""
    return path.removeprefix(_LOCAL)


def system_of(url: str) -> tuple[Any, str]:
    """The system of files of an address, and the name in it; (None, path) for a path. Raises
    UnreadableInputError."""
    if not is_remote(url):
        return None, local_of(url)
    try:
        import fsspec
    except ImportError as error:
        needs = f"an address needs fsspec: {how_to_install('remote')}, or download it first"
        raise UnreadableInputError(f"{url}: {needs} (curl -LO {url})") from error
    with _errors(url):
        return fsspec.core.url_to_fs(url)


@contextmanager
def _errors(url: str) -> Iterator[None]:
    """Whatever a client of a store raises is one line about the address."""
    try:
        yield
    except TraceAnalyzerError:
        raise
    except PermissionError as error:
        raise UnreadableInputError(
            f"{url}: access denied ({_line(error)}); check its credentials"
        ) from error
    except FileNotFoundError as error:
        raise UnreadableInputError(f"{url}: there is nothing at this address") from error
    except ImportError as error:
        raise UnreadableInputError(
            f"{url}: {_line(error)}; or {how_to_install('remote')}"
        ) from error
    except Exception as error:  # clients have classes of their own
        raise UnreadableInputError(
            f"{url}: cannot be read: {_line(error) or type(error).__name__}{_hint(error)}"
        ) from error


def _hint(error: Exception) -> str:
    """What to do where a store asks who is there."""
    if "credential" not in str(error).lower():
        return ""
    return "; log in to the store first (S3: AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:160]


def places_in(
    paths: Sequence[str],
    suffix: str = "",
    known: Callable[[RecordingPlace], bool] = lambda place: False,
) -> tuple[list[RecordingPlace], list[Failure]]:
    """Every recording that the paths and addresses name: of a folder those in it, of a pattern
    those that match; each once. With a `suffix` only files that end so; those of a folder that are
    `known` are not looked into. What cannot be listed is a failure."""
    found: dict[str, RecordingPlace] = {}
    failures: list[Failure] = []
    for path in paths:
        try:
            places = (
                _remote(path, suffix)
                if is_remote(path)
                else _local(Path(local_of(path)), suffix, known)
            )
            found.update((place.url, place) for place in places)
        except UnreadableInputError as error:
            failures.append(Failure(path, str(error)))
    return list(found.values()), failures


def iterations_in(paths: Sequence[str], places: Sequence[RecordingPlace]) -> list[str]:
    """A line for each folder of an iteration whose recordings were taken of a folder that holds
    several."""
    named = {Path(local_of(path)) for path in paths}
    read = {place.path.parent for place in places if not place.remote} - named
    return [
        f"{one} was read; --iteration N takes another."
        for one in sorted(read)
        if one.parent in named
    ]


def _local(
    path: Path, suffix: str, known: Callable[[RecordingPlace], bool]
) -> list[RecordingPlace]:
    try:
        if not path.is_dir():
            return [_local_place(path)]
        if suffix:
            return [
                _local_place(one) for one in sorted(path.iterdir()) if one.name.endswith(suffix)
            ]
        inside = (
            recordings_in(path, known=lambda file: known(_local_place(file)))
            or iteration_in(path)[0]
        )
        return list(map(_local_place, [*inside, *broken_in(path, inside)]))
    except OSError as error:
        raise cannot_open(path, error) from error


def _local_place(path: Path) -> RecordingPlace:
    about = path.stat()
    return RecordingPlace(
        str(path), str(path), False, about.st_size, f"{about.st_size} {about.st_mtime_ns}"
    )


def _remote(url: str, suffix: str, *, beside: bool = False) -> list[RecordingPlace]:
    """The objects of an address; `beside`: with what is read with a recording."""
    system, name = system_of(url)
    with _errors(url):
        files = sorted(
            (one for one in _listed(system, name) if one["type"] == "file"), key=itemgetter("name")
        )
        if not files:
            raise UnreadableInputError(f"{url}: no object here")
        every = beside or list(map(itemgetter("name"), files)) == [name]
        kept = [
            one
            for one in files
            if one["name"].endswith(suffix) and (every or not _is_beside(one["name"]))
        ]
        return [_remote_place(system, one) for one in kept]


def _listed(system: Any, name: str) -> list[dict[str, Any]]:
    if set("*?[") & set(name):
        return list(system.glob(name, detail=True).values())
    about = system.info(name)
    return [about] if about["type"] != "directory" else list(system.ls(name, detail=True))


def _is_beside(name: str) -> bool:
    return may_be_beside(PurePosixPath(name).name)


def _remote_place(system: Any, about: dict[str, Any]) -> RecordingPlace:
    # what systems of files call that which changes with an object
    stamps = ("ETag", "etag", "LastModified", "last_modified", "updated", "mtime", "created")
    stamp = next((str(about[key]) for key in stamps if about.get(key)), "")
    size = int(about.get("size") or 0)
    return RecordingPlace(
        system.unstrip_protocol(about["name"]), about["name"], True, size, f"{size} {stamp}"
    )


@contextmanager
def fetched(place: RecordingPlace, folder: Path | None = None) -> Iterator[Path]:
    """A file of this machine with the content, which is gone after the block if it was fetched
    (into `folder`, else one of its own). Raises UnreadableInputError."""
    if not place.remote:
        yield Path(place.name)
        return
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-", dir=folder) as scratch:
        path = Path(scratch) / PurePosixPath(place.name).name
        _copy(place, path)
        yield path


def _copy(place: RecordingPlace, path: Path) -> None:
    system, _ = system_of(place.url)  # not kept: its connections belong to one process
    with _errors(place.url), system.open(place.name, "rb") as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)


@contextmanager
def all_fetched(paths: Sequence[str]) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The paths with files for addresses, gone after the block, and the address of each file. What
    lies in one folder stays in one, for what is read with it. Raises UnreadableInputError."""
    if not any(map(is_remote, paths)):
        yield list(map(local_of, paths)), {}
        return
    addresses: dict[str, str] = {}
    files: list[str] = []
    folders: dict[str, Path] = {}
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-") as scratch:
        for path in paths:
            if not is_remote(path):
                files.append(local_of(path))
                continue
            for place in _remote(path, "", beside=True):
                folder = folders.setdefault(
                    place.url.rpartition("/")[0], Path(scratch) / str(len(folders))
                )
                folder.mkdir(exist_ok=True)
                file = folder / PurePosixPath(place.name).name
                if str(file) not in addresses:
                    _copy(place, file)
                addresses[str(file)] = place.url
                if not _is_beside(place.name):
                    files.append(str(file))
        try:
            yield files, addresses
        except UnreadableInputError as error:
            text = reduce(lambda text, pair: text.replace(*pair), addresses.items(), str(error))
            raise type(error)(text) from error


def contents(
    places: Sequence[RecordingPlace],
) -> Iterator[tuple[RecordingPlace, bytes | str | None]]:
    """The content of small objects, or why it cannot be had; None of files of this machine."""
    for i in range(0, len(places), AT_ONCE):
        some = places[i : i + AT_ONCE]
        away = [place for place in some if place.remote]
        content_of: dict[str, Any] = {}
        if away:
            system = system_of(away[0].url)[0]
            content_of = system.cat([place.name for place in away], on_error="return")
        for place in some:
            data = content_of.get(place.name, "it is gone") if place.remote else None
            yield place, _line(data) if isinstance(data, Exception) else data


def write_to(folder: str, name: str, data: bytes) -> None:
    """Write a small file of a folder or below an address whole, or not at all. Raises
    TraceAnalyzerError, OSError."""
    system, inside = system_of(folder)
    if system is None:
        with replacing(Path(inside) / name) as file:
            file.write(data)
        return
    with _errors(folder):
        system.pipe_file(f"{inside.rstrip('/')}/{name}", data)


def names_in(folder: str, suffix: str) -> set[str]:
    """The names of the files in a folder or below an address that end so; a folder is made where
    there is none. Raises TraceAnalyzerError, OSError."""
    system, inside = system_of(folder)
    if system is None:
        Path(inside).mkdir(parents=True, exist_ok=True)
        return {one.name for one in Path(inside).iterdir() if one.name.endswith(suffix)}
    with _errors(folder):
        try:
            listed = system.ls(inside, detail=False, refresh=True)
        except FileNotFoundError:  # a store has no empty folders
            return set()
        return {PurePosixPath(name).name for name in listed if name.endswith(suffix)}


def remove_from(folder: str, name: str) -> None:
    """Remove a file that `names_in` gave. Raises TraceAnalyzerError, OSError."""
    system, inside = system_of(folder)
    if system is None:
        (Path(inside) / name).unlink(missing_ok=True)
        return
    with _errors(folder):
        system.rm_file(f"{inside.rstrip('/')}/{name}")
