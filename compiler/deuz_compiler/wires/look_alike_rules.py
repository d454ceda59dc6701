"""The wordings that look like an overflow and are none, as tables one can read.

Rules:
- Quotas are asked before any wording of overflow: they count tokens as well.
- Limits on output, images, fields and time are asked before the broad wordings only.
"""

from deuz_compiler.wires.error_words import make_rule

QUOTA_CODES = make_rule(
    "quota_code",
    None,
    r"rate_?limit|quota|throttl|too_many_requests|resource_exhausted|request_limit",
    r"billing|credits?_|insufficient_(?:quota|balance|credit|fund)|overloaded|permission|authentication",
)

QUOTA = make_rule(
    "quota",
    None,
    r"rate.?limit|per[ _-](?:minute|hour|day|second|month)|\b[tr]p[mdh]\b|quota",
    r"throttl|too many requests|wait before|try again in \d|usage limit|concurren",
    r"credits?\b|billing|can only afford|insufficient (?:balance|funds)",
    r"extra usage|subscription|your plan|budget has been|overloaded|spending",
    r"\b(?:hourly|daily|weekly|monthly)\b|free tier|api key",
    r"\bkey (?:\w{1,20} )?limit",
    r"频率|限流|配额|额度|余额|欠费|每分钟|频繁|并发|レート制限|リクエスト数",
    r"분당|할당량|속도 제한|par minute|por minuto|pro minute|в минуту|квот",
)

OTHER_LIMITS = (
    make_rule(
        "unknown_name",
        None,
        r"(?:unknown|unexpected|unrecogni[sz]ed|unsupported|invalid) "
        r"(?:value|beta|header|field|option|enum|key)",
        r"models?\b<gap>(?:not found|does not exist|no longer available)",
    ),
    make_rule(
        "attachment",
        None,
        r"\b<attachment>\b<gap>(?:\b[kmg]i?b\b|bytes|pixels|dimensions?|pages)",
        r"\b<attachment>\b<gap>(?:resolution|too (?:large|big))",
        # Images cost tokens: "tokens of image and text exceed" is an overflow.
        r"\b<attachment>\b<near>(?:exceed|larger than|above|over)\w{0,12}\b"
        r"(?![^\n]{0,60}token)",
        r"\bpages\b<gap>(?:maximum|at most|exceed)",
        r"图片|图像|文件|视频|音频|画像|이미지",
    ),
    make_rule(
        "counted_things",
        None,
        r"(?:more than|maximum of|at most|limit of|limited to|up to) <n>"
        r" (?:documents?|items?|inputs|messages|blocks|tools|functions|elements|entries"
        r"|parts|turns|pdf|images?|pages|files)",
        r"too many (?:images?|files|tools|functions|pages|stop)",
        r"number of (?:images?|files|tools|functions|pages)\b<near>"
        r"(?:exceed|limit|max|must|at most|more than)",
        r"headers?\b<near>too (?:large|long)|cookies? too|uri too (?:large|long)",
    ),
    make_rule(
        "field_length",
        None,
        r"(?:string|array) too long|(?:string|array)_above_max_length",
        r"<n> characters|\bcharacters? limit|字符|文字数",
    ),
    make_rule(
        "memory_or_time",
        None,
        r"requested context size|failed to load|out of memory|time limit|timed? ?out",
        r"(?:insufficient|not enough|enough) (?:\w{1,20} )?memory|deadline",
    ),
    make_rule(
        "output_cap",
        None,
        r"(?:^|[.:;,(\[=] ?|\b(?:the|of|requested|parameter|invalid|value|your|that) )"
        r"<output>\b(?:[^\n](?!context)){0,60}?"
        r"(?:exceed|too (?:large|high|big|many)|\bmust be|\bshould be|at most|less than"
        r"|greater than|cannot|not valid|valid range|> ?\d|above|larger than"
        r"|out of range)",
        r"(?:reduce|lower|decrease)<near>\bmax(?:imum)? output tokens",
        r"(?:max_tokens|输出)[^\n]{0,12}(?:超|大于|范围)",
    ),
)
