"""Takes the folders of the recording machine out of Kineto traces: `python scrub.py FOLDER`."""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

TRACE_NAME = re.compile(rb',\s*"traceName": "[^"]*"')
SOURCE_FOLDER = re.compile(rb'"(?:/[^"/]+)+/([^"/]+\.(?:py|so))')


def main() -> None:
    """Rewrite every trace below the folder."""
    for path in sorted(Path(sys.argv[1]).rglob("trace*.json.gz")):
        text = gzip.decompress(path.read_bytes())
        text = SOURCE_FOLDER.sub(rb'"\1', TRACE_NAME.sub(b"", text))
        path.write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    main()
