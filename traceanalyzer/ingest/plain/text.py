"""A text as a program printed it, without what a terminal or a collector of logs put around it."""

import codecs

from traceanalyzer.base import regex

ESCAPE = regex(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Terminal control sequences: colours, cursor movements, titles."""
_PREFIX = regex(
    r"(?:"
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?(?: (?:stdout|stderr) F)?"
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?"
    r"|\[(?:rank|default)\s?\d{1,6}\]:"
    r"|\([A-Za-z_]\w{0,60} pid=\d{1,9}(?:, ip=[\d.]{7,15})?\)"
    r"|[A-Za-z][\w.-]{0,60}\s{0,20}\|(?=\s)"
    r"|\d{1,6}:(?=\s)"
    r") ?"
)
"""What a collector of logs writes in front of each line: a time, a rank, a process, a container."""
OF_NCCL = (" NCCL INFO ", " NCCL WARN ")
"""In lines of NCCL and RCCL, which are no program's: `comm 0x7f01 rank 0 nranks 8` is no step."""
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How a text begins that a Windows shell redirected."""
MOST_BLANK_LINES = 20
_BLANK_LINES = regex(rf"\n(?:[^\S\n]*\n){{{MOST_BLANK_LINES},}}")
"""More than any program prints: each line at which a row may begin would be looked at together with all
blank lines after it."""
MOST_PREFIXES = 3  # a container, a time, a rank
NEARLY_ALL = 0.9  # of the lines: a few may have come from elsewhere
FEWEST_LINES = 2


def plain_text(data: bytes) -> str:
    """The text of a file: decoded, without control sequences, without what stands in front of nearly
    every line, and with few of many blank lines."""
    encoding = "utf-16" if data.startswith(UTF16) else "utf-8-sig"
    text = data.decode(encoding, "replace").replace("\r\n", "\n")
    if "\x1b" in text:
        text = ESCAPE.sub("", text)
    for _ in range(MOST_PREFIXES):
        shorter = _without_prefix(text)
        if shorter == text:
            break
        text = shorter
    return _BLANK_LINES.sub("\n" * MOST_BLANK_LINES, text)


def _without_prefix(text: str) -> str:
    """The lines without a prefix, where nearly all have one."""
    lines = text.split("\n")
    written = [line for line in lines if line.strip()]
    marked = sum(_PREFIX.match(line) is not None for line in written)
    if len(written) < FEWEST_LINES or marked < NEARLY_ALL * len(written):
        return text
    return "\n".join(_PREFIX.sub("", line, count=1) for line in lines)
