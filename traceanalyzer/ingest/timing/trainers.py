"""Lines of trainers whose numbers have no names, or mean something of their own: darknet, tinygrad,
StyleGAN, keras with its time a sample, DLLogger. Each function reads one line; None where it is not
of its kind."""

import math

from traceanalyzer.base import regex
from traceanalyzer.ingest.timing.clocks import moment_of
from traceanalyzer.ingest.timing.names import TIME_UNITS, meaning
from traceanalyzer.ingest.timing.printed import FIRST_NUMBER, NUMBER, printed_number
from traceanalyzer.ingest.timing.records import Values

_DARKNET = regex(
    rf"^\s*(\d{{1,15}}): ({NUMBER}), {NUMBER} avg(?: loss)?, {NUMBER} rate, ({NUMBER}) seconds, "
    r"(\d{1,15}) images"
)
_TINYGRAD = regex(rf"^\s*(\d{{1,15}})\s+({NUMBER}) ms run,")
_FETCHED = regex(rf"({FIRST_NUMBER}) ms fetch data")
_LOSS_AFTER = regex(rf"({FIRST_NUMBER}) loss\b")
_STYLEGAN = regex(rf"^(?>.*?\btick (\d{{1,15}})\s).*?\bsec/kimg ({NUMBER})")
_KERAS = regex(
    rf"^(?>.*?/\d{{1,15}} \[=+\] - ).*?({FIRST_NUMBER})(us|ms|s)/sample\b(?:.*?\bloss: ({NUMBER}))?"
)
_DLL = regex(
    r"^DLL (?P<when>\S{8,12} \S{8,20}) - (?:(?P<epoch>\d{1,15}) \| (?P<step>\d{1,15})\b"
    r"|.*?(?<!Validation )Iteration: (?P<iteration>\d{1,15}))"
)
_DLL_VALUE = regex(
    rf"(?P<name>[A-Za-z][\w./-]{{0,60}}) : (?P<value>{NUMBER})(?: (?P<unit>[A-Za-z/]{{1,12}})(?=\s|$))?"
)
SAMPLES_OF_KIMG = 1_000.0


def darknet_line(line: str) -> Values | None:
    """Darknet: `10: 5.2, 5.1 avg loss, 0.001 rate, 0.40 seconds, 640 images`."""
    match = _DARKNET.match(line)
    if match is None:
        return None
    no_rank = {"rank": math.nan}  # which a line with a number and a colon else begins with
    return no_rank | _numbers(("step", "loss", "iter_s", "samples"), match.groups())


def tinygrad_line(line: str) -> Values | None:
    """Examples of tinygrad: `10 400.0 ms run, 1.2 ms python, 2.0 ms fetch data, ...`."""
    match = _TINYGRAD.match(line)
    if match is None:
        return None
    found = _numbers(("step", "iter_s"), match.groups())
    fetched = _FETCHED.search(line)
    loss = _LOSS_AFTER.search(line)
    found |= _numbers(("data_s",), (fetched[1],)) if fetched else {}
    for name in ("iter_s", "data_s"):
        if name in found:
            found[name] *= TIME_UNITS["ms"]
    return found | (_numbers(("loss",), (loss[1],)) if loss else {})


def stylegan_line(line: str) -> Values | None:
    """StyleGAN and its kin count ticks of some thousand images: how long a thousand takes."""
    match = _STYLEGAN.search(line)
    seconds = printed_number(match[2]) if match else None
    if match is None or not seconds or seconds <= 0:
        return None
    return {"step": float(match[1]), "samples_per_s": SAMPLES_OF_KIMG / seconds}


def keras_samples(line: str) -> Values | None:
    """Keras of TensorFlow 1 and 2.0, which counts samples: `60000/60000 [===] - 3s 50us/sample`."""
    match = _KERAS.search(line)
    each = printed_number(match[1]) if match else None
    if match is None or not each or each <= 0:
        return None
    found = {"samples_per_s": 1.0 / (each * TIME_UNITS[match[2]])}
    return found | (_numbers(("loss",), (match[3],)) if match[3] else {})


def dll_line(line: str) -> Values | None:
    """NVIDIA's DLLogger on a console: `DLL 2024-05-01 10:00:00.4 - 0 | 5 | train_time : 0.4 s`, or
    with `Iteration: 5`."""
    match = _DLL.match(line)
    if match is None:
        return None
    found: dict[str, float] = {"step": float(match["step"] or match["iteration"])}
    moment = moment_of(match["when"])
    if moment is not None:
        found["when_s" if moment[1] else "about_s"] = moment[0]
    for value in _DLL_VALUE.finditer(line, match.end()):
        meant = meaning(value["name"], value["unit"] or "")
        number = printed_number(value["value"])
        if meant is not None and number is not None:
            found.setdefault(meant.field, number * meant.factor)
    return found


def _numbers(names: tuple[str, ...], texts: tuple[str, ...]) -> dict[str, float]:
    read = ((name, printed_number(text)) for name, text in zip(names, texts, strict=True))
    return {name: value for name, value in read if value is not None}
