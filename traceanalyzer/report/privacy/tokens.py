"""Tokens by their forms, as those who give them out document them: what begins like a service's token
and goes on like one is hidden wherever it stands, cut short or set in other text.

The beginnings are those of the services' own pages on their keys; JSON Web Tokens are RFC 7519, PEM is
RFC 7468."""

import re
from functools import cache

_WORD_TAIL = r"[A-Za-z0-9]{%d,}+"
_LINE_TAIL = r"[\w-]{%d,}+"
_BY_TAIL = {
    _WORD_TAIL % 10: (
        "sk_live_ sk_test_ rk_live_ rk_test_ whsec_ pk_live_ shippo_live_ shippo_test_ esecret_ LTAI AKID "
        "rpa_ nfp_ npm_ hf_ api_org_ ghp_ gho_ ghu_ ghs_ ghr_ dckr_pat_ dckr_oat_ gsk_ r8_ ntn_ "
        "shpat_ shpca_ shppa_ shpss_ dop_v1_ doo_v1_ dor_v1_ rubygems_ rdme_ lin_api_ lin_oauth_ tfp_ "
        "bkua_ bkaj_ bkpt_ CCIPAT_ sbp_ sb_secret_ squ_ sqp_ sqa_ KGAT_ AKCp ABSK csk- fw_ "
        "pnu_ clh_ rnd_ vcp_ EZAK EZTK gaia_ zpka_ xai- age1 AGE-SECRET-KEY-1"
    ),
    _LINE_TAIL % 12: (
        "github_pat_ GOCSPX- wandb_v1_ pplx- glsa_ glc_ figd_ figr_ pcsk_ NRAK- NRJS- NRII- NRRA- PMAK- "
        "pul- HRKU- sntrys_ sntryu_ lsv2_pt_ lsv2_sk_ pk-lf- sk-lf- tgp_v1_ sgp_ slk_ pscale_tkn_ "
        "pscale_pw_ pscale_oauth_ CFPAT- ops_eyJ xkeysib- xsmtpsib- pat-na1- pat-eu1- ico- fio-u- "
        "p8e- sk-ant- sk-or- sk-proj- sk- nvapi- glpat- gldt- glrt- glptt- glcbt- glft- glimt- glagent- "
        "gloas- glsoat- pypi- AIza ya29. xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp- sq0atp- sq0csp- "
        "sq0idp- access-sandbox- access-production- key-live- FLWSECK- al-live- mk_live_ y0_ AQVN "
        "hvs. hvb. hvr. dp.pt. dp.st. dp.sa. dp.ct. dp.scim. dp.audit. dt0c01. dt0s01. sl.B fm1_ fm2_ "
        "ATATT ATCTT ATBB ATSTT ATOA EAAC EAAB EAAG aph0_ secret_ org-key- apify_api_"
    ),
}
"""Beginnings of tokens, by what they go on with."""


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
    | eyJ[\w-]{{8,}}+\.eyJ[\w-]{{4,}}+(?:\.[\w-]*+)?
    | hooks\.slack\.com/(?:services|workflows|triggers)/[\w/-]{{8,}}+
    | discord(?:app)?\.com/api/webhooks/[\w/-]{{8,}}+
    )
    | -----BEGIN\ [A-Z ]{{0,30}}PRIVATE\ KEY-----[^-]*+(?:-----END\ [A-Z ]{{0,30}}PRIVATE\ KEY-----)?
    """,
        re.VERBOSE,
    )


def without_tokens(text: str, hidden: str) -> str:
    """The text with `hidden` in place of each token of a known form."""
    return _forms().sub(hidden, text)
