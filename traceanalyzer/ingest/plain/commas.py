"""Numbers with a comma where others have a point, as programs print them in some locales."""

from traceanalyzer.base import regex

_COMMA = regex(r"(?<!\d:)(?<=[:=; \t])-?\d{1,9},\d{1,9}(?![\d,])")
_POINT = regex(r"(?<![\d.])\d{1,9}\.\d{1,9}(?![\d.])")
_THOUSANDS = regex(r"-?[1-9]\d{0,2},\d{3}")
_BETWEEN_DIGITS = regex(r"(?<=\d),(?=\d)")
FEWEST = 3  # numbers that say so


def with_decimal_commas(text: str) -> bool:
    """Whether the numbers of a text have commas for points: `Zeit 0,412 s`. A comma that may stand
    between thousands does not say so, nor does one of a list or behind a clock's seconds."""
    numbers = _COMMA.findall(text)
    if len(numbers) < FEWEST or _POINT.search(text) is not None:
        return False
    return any(_THOUSANDS.fullmatch(number) is None for number in numbers)


def with_points(text: str) -> str:
    """A text with decimal commas, with points."""
    return _BETWEEN_DIGITS.sub(".", text)
