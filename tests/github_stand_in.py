"""A `gh` for tests: it notes how it is called and answers as told."""

import json
import sys

STAND_IN = """#!{python}
import json, os, sys
with open({log!r}, "a", encoding="utf-8") as log:
    call = {{"arguments": sys.argv[1:], "body": sys.stdin.read(), "prompts": os.environ.get("GH_PROMPT_DISABLED")}}
    log.write(json.dumps(call) + "\\n")
key = "edit" if any("mutation" in word for word in sys.argv) else sys.argv[1]
answer = json.loads({answers!r})[key]
print(answer["out"])
print(answer["err"], file=sys.stderr)
sys.exit(answer["status"])
"""
FINE = {"out": "", "err": "", "status": 0}
URL = "https://github.com/o/r/issues/7#issuecomment-1"


def comments(*of):
    """GitHub's answer with these comments: pairs of whether they are one's own and what they
    say."""
    nodes = [
        {"id": f"IC_{i}", "viewerDidAuthor": own, "body": body} for i, (own, body) in enumerate(of)
    ]
    found = {"data": {"repository": {"issueOrPullRequest": {"comments": {"nodes": nodes}}}}}
    return FINE | {"out": json.dumps(found)}


EDITED = FINE | {
    "out": json.dumps({"data": {"updateIssueComment": {"issueComment": {"url": URL + "-edited"}}}})
}


class StandIn:
    """The program, in a folder that is to be on PATH."""

    def __init__(self, folder):
        self._folder = folder
        self._log = folder / "calls.jsonl"
        self.answers = {
            "issue": FINE | {"out": URL},
            "pr": FINE | {"out": URL},
            "api": comments(),
            "edit": EDITED,
        }
        self.install()

    def install(self, mode=0o755):
        gh = self._folder / "gh"
        text = STAND_IN.format(
            python=sys.executable, log=str(self._log), answers=json.dumps(self.answers)
        )
        gh.write_text(text, encoding="utf-8")
        gh.chmod(mode)

    def calls(self):
        return [json.loads(line) for line in self._log.read_text(encoding="utf-8").splitlines()]
