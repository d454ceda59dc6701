"""The wordings of overflow, as tables one can read, and the order of all rules.

Rules:
- The first rule that fits decides; a rule of `look_alike_rules` says "no overflow".
- Codes come before words; words of quotas come before words of overflow; limits on
  other things come before the broad wordings.
- Patterns see plain text: lower case, no quotes, no links, numbers without separators.
- A rule is a kind of wording, not one server's sentence.
"""

from deuz_compiler.wires.error_words import make_rule
from deuz_compiler.wires.look_alike_rules import OTHER_LIMITS, QUOTA

OVERFLOW_CODES = make_rule(
    "code",
    "input",
    r"context_?(?:length|window|size|limit|tokens?)s?_(?:is_|was_)?"
    r"(?:exceed|overflow|too)",
    r"exceed(?:s|ed)?_(?:the_)?(?:max(?:imum)?_)?(?:model_)?context",
    r"context_(?:exceeded|overflow)|max_context_length",
    r"(?:prompt|input)_(?:tokens?|length|size)_(?:limit_|count_)?exceed",
    r"(?:prompt|input|context)_(?:is_)?too_(?:long|large)",
    r"token_quantity_exceeded|^1261$",
)
"""Codes in snake case. 1261 is Zhipu's; 2013 and 5021 also stand for other faults."""

# Names that servers and gateways quote from code: as good as a code.
NAMED_CODE = make_rule(
    "named_code",
    "input",
    r"context_length_exceeded|contextwindowexceedederror",
    r"exceed_context_size_error|model_max_prompt_tokens_exceeded",
    r"(?:prompt|input|context)_too_(?:long|large)",
)

# Comparisons of token counts that no other limit is written in.
COMPARISONS = (
    make_rule(
        "sum_over_limit",
        "input_plus_output",
        r"(?:context|input|prompt|token)<gap><n> ?\+ ?<n> ?>=? ?<n>",
    ),
    make_rule(
        "prompt_over_maximum",
        "input",
        r"\b(?:prompt|input|context|conversation)\b<near><n> ?(?:tokens?)?\)? ?>=? ?"
        r"<n> ?(?:tokens?|max)",
        r"\b(?:prompt|input|context|conversation)\b<near><n> ?(?:tokens?)?\)? "
        r"(?:exceeds?|(?:is|are) (?:longer|larger|greater|more) than)<near>"
        r"(?:context|max\w{0,12}(?: allowed)?(?: \w{1,20})? (?:length|tokens?))\b"
        r"<near>\d",
    ),
    make_rule(
        "no_room_for_output",
        "input",
        # The server subtracted: window minus prompt. A client's own -1 means "all".
        r"<output><near>(?:got|given|received|was|:)[ :]{0,3}-(?!1\b)\d",
    ),
    make_rule(
        "input_plus_output",
        "input_plus_output",
        r"(?:input|prompt|messages?)<gap>(?:and|plus|\+)<gap>(?:max_|output|completion)"
        r"<gap>(?:exceed|> ?\d|must be <|larger than|greater than|over)",
        r"requested token count exceeds<gap>context",
        r"requested <n> output tokens and your (?:prompt|input)",
        r"<output> is too large: <n>\. this models maximum context length<gap>"
        r"your request has \d",
    ),
    make_rule(
        "characters_over_maximum",
        "input_chars",
        r"expected maxlength: <n>, actual: <n>",
        r"prompt: length: <n>\.\.<n>",
    ),
)

BROAD_WORDINGS = (
    make_rule("over_window", "input", r"<over>\b<gap><window>"),
    make_rule(
        "window_is_over",
        "input",
        r"<window>[^\n]{0,40}?(?:exceed\w{0,12}|overflow\w{0,12}|reached|exhausted"
        r"|not enough|too (?:small|short) (?:for|to)|insufficient|is full)",
        r"\bcontext overflow",
    ),
    make_rule(
        "too_large_for_model",
        "input",
        r"(?:request|message|prompt|input|content)<near>too (?:large|long|big) for "
        r"(?:the |this |our )?(?:model|context)",
    ),
    make_rule(
        "request_bytes",
        "request_bytes",
        r"(?:request|payload|body|entity|content) (?:\w{1,20} ){0,3}"
        r"(?:is |was )?too (?:large|big)(?! (?:for|to process))",
        r"\b<body>\b<gap>(?:exceed|larger than|over|limit)<gap>"
        r"(?:bytes|\b[kmg]i?b\b|maximum size|size limit|payload|body)",
        r"\b<body>\b (?:\w{1,20} ){0,2}(?:size|bytes)<near>"
        r"(?:exceed|larger than|over|limit)",
        r"(?:sent|received) message larger than max",
        r"value at body<gap>length less than or equal to",
        r"payloadtoolarge|request_too_large|request entity",
    ),
    make_rule(
        "maximum_is_stated",
        "input",
        r"\b(?:this|the) (?:models?|endpoints?|deployments?) "
        r"max(?:imum)? (?:context|prompt|input|sequence) (?:length|tokens|size) "
        r"(?:is|of)",
    ),
    make_rule(
        "prompt_too_long",
        "input",
        r"\b(?:prompt|inputs?|messages?|conversation|history|context|sequence|dialogue"
        r"|chat)\b<near>\b(?:too (?:long|large|big)"
        r"|(?:has|have|contains?) too many tokens)",
        r"total (?:length|size|number of tokens)<gap>too (?:long|large|big)",
        r"\bprompt<near>\b(?:exceeds?|over) (?:the )?max(?:imum)?[ _]length",
    ),
    make_rule(
        "asked_to_shorten",
        "input",
        r"(?:reduce|shorten|decrease|trim) (?:the |your )?"
        r"(?:(?:length|size) of (?:the |your )?)?"
        r"(?:messages|prompt|input|conversation|context)",
    ),
    make_rule(
        "tokens_over_limit",
        "input",
        r"\b(?:prompt|inputs?|tokens?|sequence)\b<gap>\b<over>\b<gap>\b<ceiling>\b",
        r"(?:requests?|messages?|conversation)\b<gap>\b<over>\b<gap>\btokens?\b",
        is_vague=True,
    ),
    make_rule(
        "length_must_be_less",
        "input",
        r"\b(?:prompt|inputs?|messages?|sequence|text|total number of)<near>"
        r"(?:tokens?|length)\b<gap>\b<under>",
        r"\b(?:prompt|inputs?|messages?|sequence|text)\b<near>\b<under><near>"
        r"<n> tokens",
        r"\b(?:max_)?total[ _]tokens\b<near>\b<under>",
    ),
    make_rule(
        "too_many_tokens",
        "input",
        r"too many (?:input |prompt |context )?tokens",
        r"\bmax tokens of <n> exceeded",
        is_vague=True,
    ),
    make_rule(
        "cannot_truncate",
        "input",
        r"(?:cannot|can not|could not|unable to) (?:be )?truncated?\b",
        r"tokens to keep<gap>context|keep the first <n> tokens",
    ),
    make_rule(
        "other_language",
        "input",
        r"(?:上下文|输入|輸入|提示|对话|對話|消息|请求|請求|prompt|tokens?)[^\n]{0,30}?"
        r"(?:超出|超过|超過|过长|過長|太长|太長|溢出|超限|大于)",
        r"(?:超出|超过|超過|大于)[^\n]{0,20}?(?:上下文|最大长度|长度限制|tokens?|窗口)",
        r"(?:コンテキスト|プロンプト|入力|トークン)<near>(?:超え|超過|長すぎ|大きすぎ)",
        r"(?:컨텍스트|프롬프트|입력|토큰)<near>(?:초과|넘|너무 [깁길큽큰])",
        r"(?:kontext|eingabe|prompt)\w{0,12}<gap>"
        r"(?:überschr[ei]\w{1,12}|zu (?:lang|groß))",
        r"(?:contexte|invite|entrée|prompt)\b<gap>(?:dépass|trop long)",
        r"(?:contexto|entrada|prompt)\b<gap>(?:excede|supera|sobrepasa|ultrapassa"
        r"|(?:demasiado|muito) (?:larg|long)[ao])",
        r"(?:contesto|input|prompt)\b<gap>(?:supera|eccede|troppo lung)",
        r"(?:контекст|ввод|запрос|промпт|сообщени)\w{0,6}<gap>"
        r"(?:превы|слишком (?:длин|больш))",
    ),
)

TEXT_RULES = (NAMED_CODE, QUOTA, *COMPARISONS, *OTHER_LIMITS, *BROAD_WORDINGS)

TWO_NUMBERS = make_rule("two_numbers", "input", r"\btokens?\b", is_vague=True)
"""The last resort: words of no known kind around two counts that can be compared."""
