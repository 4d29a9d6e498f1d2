"""Tokens by their forms, as those who give them out document them: what begins like a service's token
and goes on like one is hidden wherever it stands, cut short or set in other text.

The beginnings are those of the services' own pages on their keys; JSON Web Tokens are RFC 7519, PEM is
RFC 7468."""

import re
from functools import cache

from traceanalyzer.base import regex

_WORD_TAIL = r"(?:(?=[a-z]{0,64}[A-Z0-9])[A-Za-z0-9]{10,}+|[a-z]{20,}+)"
_LINE_TAIL = r"(?:(?=[a-z_-]{0,64}[A-Z0-9])[\w-]{12,}+|[\w-]{32,}+)"
"""What goes on: words of small letters are names (`hf_transformers`, `fw_pipeline`) unless they are
longer than names are."""
_BY_TAIL = {
    _WORD_TAIL: (
        "sk_live_ sk_test_ rk_live_ rk_test_ whsec_ pk_live_ shippo_live_ shippo_test_ esecret_ LTAI AKID "
        "rpa_ nfp_ npm_ hf_ api_org_ ghp_ gho_ ghu_ ghs_ ghr_ dckr_pat_ dckr_oat_ gsk_ r8_ ntn_ "
        "shpat_ shpca_ shppa_ shpss_ dop_v1_ doo_v1_ dor_v1_ rubygems_ rdme_ lin_api_ lin_oauth_ tfp_ "
        "bkua_ bkaj_ bkpt_ phc_ phx_ phs_ vercel_ jina_ e2b_ cpk_ cfut_ cfat_ cfk_ fo1_ key_live_ "
        "mlsn. oy2 ddapp_ ddpat_ hfp_ rps_ sb_publishable_ sbp_ sb_secret_ squ_ sqp_ sqa_ KGAT_ AKCp ABSK csk- fw_ "
        "pnu_ clh_ rnd_ vcp_ EZAK EZTK gaia_ zpka_ xai- age1 AGE-SECRET-KEY-1"
    ),
    _LINE_TAIL: (
        "github_pat_ GOCSPX- wandb_v1_ pplx- glsa_ glc_ figd_ figr_ pcsk_ NRAK- NRJS- NRII- NRRA- PMAK- "
        "pul- HRKU- sntrys_ sntryu_ lsv2_pt_ lsv2_sk_ pk-lf- sk-lf- tgp_v1_ sgp_ slk_ pscale_tkn_ "
        "pscale_pw_ pscale_oauth_ CFPAT- ops_eyJ xkeysib- xsmtpsib- pat-na1- pat-eu1- ico- fio-u- "
        "p8e- sk-ant- sk-or- sk-proj- sk- nvapi- glpat- gldt- glrt- glptt- glcbt- glft- glimt- glagent- "
        "gloas- glsoat- pypi- AIza ya29. xoxa- xoxb- "
        "xoxc- xoxd- xoxe. xoxe- xoxo- xoxp- xoxr- xoxs- xapp- sq0atp- sq0csp- "
        "sq0idp- access-sandbox- access-production- key-live- FLWSECK- al-live- mk_live_ y0_ AQVN "
        "hvs. hvb. hvr. dp.pt. dp.st. dp.sa. dp.ct. dp.scim. dp.audit. dt0c01. dt0s01. sl.B fm1_ fm2_ "
        "ATATT ATCTT ATBB ATSTT ATOA EAAC EAAB EAAG aph0_ secret_ org-key- apify_api_ tskey- tvly- PMAT- key- MG. "
        "gAAAAA ak- as- A3- 1//0 dp.st.dev. cmVmdGtuOj dG9rOg re_ ls__ "
        "pk.eyJ sk.eyJ age-secret-key-1 FlyV1 flyv1_ cio_ lmk_ modal_ AAAAB3NzaC1yc2E AAAAC3NzaC1lZDI1NTE5 AAAAE2VjZHNh"
    ),
}
"""Beginnings of tokens, by what they go on with."""

_RUN = regex(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9]{20,512}+")
_WITH_SIGNS = regex(r"(?<![A-Za-z0-9+/=])(?=[^/+]{0,39}[/+])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])")
"""A secret key of AWS is 40 such characters."""
_KINDS = regex(r"[a-z]+|[A-Z]+|[0-9]+")
_MANGLED = regex(r"_Z|[IL][ilbjm]\d+E|\dI[A-Z]")
LEAST_OF_EACH = 3
"""Small letters, capitals and digits that a random text of 20 has at least: one in a thousand has
fewer."""
LONGEST_PART = 2.5
"""Characters in a row of one kind, in the mean, at most: a random text has under two."""
LONGEST_WORD = 6
"""Letters in a row of one kind, at most: a random text of 40 has more one time in twenty, names of
kernels and functions have words."""


def _alternatives() -> str:
    parts = []
    for tail, beginnings in _BY_TAIL.items():
        texts = sorted(map(re.escape, beginnings.split()), reverse=True)
        parts.append(f"(?:{'|'.join(texts)})(?:{tail})")
    return " | ".join(parts)


@cache
def _forms() -> re.Pattern[str]:
    return re.compile(
        rf"""(?<![A-Za-z0-9])(?:
      {_alternatives()}
    | (?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ABIA|ACCA)[A-Z0-9]{{12,}}+
    | dapi[0-9a-f]{{32}}+ | SG\.[\w-]{{16,}}+\.[\w-]{{16,}}+
    | [A-Za-z0-9]{{14}}\.atlasv1\.[\w-]{{16,}}+
    | eyJ[\w-]{{8,}}+(?:\.[\w-]*+){{1,4}} | eyJ[\w+/-]{{24,}}+={{0,2}}
    | pat[A-Za-z0-9]{{14}}\.[A-Za-z0-9]{{16,}}+ | v\d\.[0-9a-f]{{40}}
    | [a-z0-9-]{{1,63}}\.webhook\.office\.com/[\w@/-]{{8,}}+
    | (?:[A-Za-z0-9]{{3}}\d|\w{{3,5}})Q~[\w.~-]{{16,}}+
    | hooks\.slack\.com/(?:services|workflows|triggers)/[\w/-]{{8,}}+
    | discord(?:app)?\.com/api/webhooks/[\w/-]{{8,}}+
    | CCIPAT_\w{{8,}}+ | access_token\$\w{{4,20}}\$\w{{8,32}}\$[0-9a-f]{{32}}
    | \d/\d{{16}}:[0-9a-f]{{32}} | A{{20}}[\w%+/=-]{{40,}}+ | 6L[\w-]{{38}}(?![\w-])
    | st\.[0-9a-f-]{{12,40}}\.[0-9a-f]{{32}}\.[0-9a-f]{{32}} | hc[abxm][a-z]{{2}}_[0-9a-z]{{24,}}+
    | (?:[a-z0-9_-]{{2,64}}\+[a-z0-9_]{{2,64}}):[A-Z0-9]{{64}}(?![A-Z0-9])
    | (?i:jenkins-crumb):\s?[0-9a-f]{{32,}}+
    )
    | -----BEGIN\ [A-Z ]{{0,30}}PRIVATE\ KEY(?:\ BLOCK)?-----[^-]*+
      (?:-----END\ [A-Z ]{{0,30}}PRIVATE\ KEY(?:\ BLOCK)?-----)?
    | (?<=Private-Lines:\ )\d{{1,4}}\s{{1,4}}[A-Za-z0-9+/=\s]+?(?=Private-MAC|\Z)
    """,
        re.VERBOSE,
    )


def without_tokens(text: str, hidden: str) -> str:
    """The text with `hidden` in place of each token of a known form, and of what is as random as
    one."""
    text = _forms().sub(hidden, text)
    text = _WITH_SIGNS.sub(lambda run: hidden if _is_random(run[0]) else run[0], text)
    return _RUN.sub(lambda run: hidden if _is_random(run[0]) else run[0], text)


def _is_random(run: str) -> bool:
    """Whether small letters, capitals and digits alternate as in no name."""
    if _MANGLED.search(run):
        return False
    parts = _KINDS.findall(run)
    longest = max(map(len, parts))
    if len(run) > LONGEST_PART * len(parts) or longest > LONGEST_WORD:
        return False
    small = sum(map(str.islower, run))
    capitals = sum(map(str.isupper, run))
    return min(small, capitals, len(run) - small - capitals) >= LEAST_OF_EACH
