"""Tell what the numbers in an error text are: limit, request, or something else.

Rules:
- A number is known by its neighbours: the words right before and right behind it.
- The first role whose neighbours fit wins; the table's order is the law.
- A number without a known role is not used. Error codes, characters, bytes and dates
  are not tokens; "exceeded by N" is an excess, not a size.
"""

import re
from itertools import islice

import msgspec

ERROR_CODE_CEILING = 10_000
"""A lone number below it in brackets, without a word of tokens, is an error code."""


MAX_NUMBERS = 48
"""The wordiest known text has seven."""


class TokenNumbers(msgspec.Struct, frozen=True, gc=False):
    """The numbers of one text. `output` is the part that was asked for as output."""

    limit: int | None = None
    requested: int | None = None
    excess: int | None = None
    input: int | None = None
    output: int | None = None


_COUNTED = (
    r"(?:context|model|sequence|prompt|input|tokens?|length|size|window|limit|number"
    r"|allowed|count|of|for|this|the|is|was|currently|only|set|to|at|maximum|max"
    r"|models?|message|about)"
)
_OUTPUT_NAME = r"max_(?:new_|completion_|output_)?tokens"

ROLES = tuple(
    (role, re.compile(before + r"$"), re.compile(behind))
    for role, before, behind in (
        # role, what stands before, what stands behind
        ("ignored", r"", r" ?(?:characters?|chars|bytes?|[kmg]i?b|pixels|draft)\b"),
        ("ignored", r"", r" ?(?:images?|pages|seconds|minutes|hours|m?s|%)\b"),
        ("ignored", r"upper bound for ", r""),
        ("ignored", r"<", r">"),
        ("ignored", r"\b(?:code|status|http|value|ref|id|version)[ :=#(\[<]*", r""),
        ("excess", r"\bby(?: about| at least| approximately| ~)? ?\(?", r""),
        ("excess", r"", r" ?tokens? (?:over|above|too many|too long|beyond)\b"),
        ("input", r"", r" ?\+ ?\d"),
        ("output", r"\d ?\+ ?", r""),
        (
            "output",
            r"",
            r"\)? ?(?:tokens? )?(?:(?:in|for|of|as|from) )?(?:the |your )?"
            r"(?:requested |reserved |max(?:imum)? |new )*"
            rf"(?:completion|output|response|generation|{_OUTPUT_NAME})\b",
        ),
        (
            "requested",
            r"\b(?:input|prompt)(?: [a-z]+)? (?:and|plus|\+) (?:[a-z]+ )?"
            r"(?:output|completion|max_\w+)(?: tokens)? ?\(?",
            r"",
        ),
        (
            "output",
            rf"\b(?:output(?: count| tokens)?|completion|{_OUTPUT_NAME})"
            r"(?: is too large| of)?[ :=(]*",
            r"",
        ),
        (
            "requested",
            r"",
            r"\)? ?(?:tokens?\)?)? ?(?:>|exceeds?\b"
            r"|exceeded (?:the|this|that|its|your|our|max|model|context)"
            r"|surpass|(?:must|should) (?:be|not)|cannot exceed"
            r"|overflows?\b"
            r"|(?:is|are) (?:longer|larger|greater|more|over|above|too)\b"
            r"|(?:were |was )?(?:requested|given|received|sent|provided|used)\b)",
        ),
        ("limit", r"\[\d+, ?", r""),
        ("limit", r"(?:<=?|>=?|\bvs\.?) ?", r""),
        (
            "limit",
            r"\b(?:at most|up to|(?:less|fewer|more|longer|larger|greater) than"
            r"|exceed(?:s|ed)?|below|under|within|only|supports|accepts|allows)"
            r"(?: (?:the|a|its))? ?\(?",
            r"",
        ),
        (
            "limit",
            r"\b(?:max(?:imum)?|limit|allowed|window|n_ctx|num_ctx|max_(?:\w+_)?len(?:gth)?"
            rf"|max_num_tokens|context|capacity|batch size)(?: {_COUNTED})*[ :=(~]*",
            r"",
        ),
        ("limit", r"\bmodels? (?:with|has|of|supports|allows|accepts) (?:an? )?", r""),
        (
            "limit",
            r"",
            r"\)?[ -]?(?:tokens?)?[ -]?(?:max(?:imum)?|limit|context|window|allowed)\b",
        ),
        (
            "input",
            r"",
            r"\)? ?(?:tokens? )?(?:(?:in|of|from|for) )?(?:the |your )?"
            r"(?:inputs?|messages?|prompt|(?:text|tool|image|audio) input|functions"
            r"|tools?|system|history|conversation)\b",
        ),
        (
            "input",
            r"\b(?:input|prompt|query)(?: token)?(?: count| length| tokens)?"
            r"(?: of| is|:|=)?[ (]*",
            r"",
        ),
        (
            "requested",
            r"\b(?:request(?:ed|s)?|resulted in|received|given|got|found|actual|sent"
            r"|contains?|contained|ha[sd]|have|used|provided|count|total|length|is|was"
            r"|keep the first|n_keep|n_prompt_tokens|prompt|inputs?|too long|too large)"
            r"(?: (?:about|around|approximately|at least|a|total|of|is|was|with|tokens"
            r"|the))*[ :=(~]*",
            r"",
        ),
    )
)

_NUMBER = re.compile(r"(?<![\w.\-/#@])(\d{1,15})( ?[km]\b)?(?!\.?\d|\w)")
_MULTIPLES = {"": 1, "k": 1_000, "m": 1_000_000}
_CHARS_BEFORE = 80
_CHARS_BEHIND = 60

# vLLM proves its point: "(40960 > 262144 - 230000)" repeats what was said before.
_PROOF = re.compile(r"\(\d+ ?> ?\d+ ?- ?\d+\)")


def read_numbers(text: str) -> TokenNumbers:
    """Return the numbers of a text that `overflow.plain_text` has made plain."""
    text = _PROOF.sub(" ", text)
    found: dict[str, list[int]] = {}
    for match in islice(_NUMBER.finditer(text), MAX_NUMBERS):
        role = _role(text, match)
        if role is not None:
            size = int(match[1]) * _MULTIPLES[(match[2] or "").strip()]
            found.setdefault(role, []).append(size)
    if _is_error_code(text, found):
        return TokenNumbers()
    limit = found.get("limit", [None])[0]
    excess = found.get("excess", [None])[0]
    return TokenNumbers(
        limit=limit,
        requested=_requested(found, limit=limit, excess=excess),
        excess=excess,
        input=sum(found["input"]) if "input" in found else None,
        output=sum(found["output"]) if "output" in found else None,
    )


def _role(text: str, match: re.Match[str]) -> str | None:
    before = text[max(0, match.start() - _CHARS_BEFORE) : match.start()]
    behind = text[match.end() : match.end() + _CHARS_BEHIND]
    for role, before_pattern, behind_pattern in ROLES:
        if behind_pattern.match(behind) and before_pattern.search(before):
            return None if role == "ignored" else role
    return None


def _is_error_code(text: str, found: dict[str, list[int]]) -> bool:
    """Whether the only number is a code in brackets, as in "exceeds limit (2013)"."""
    if list(found) != ["limit"] or "token" in text:
        return False
    number = found["limit"][0]
    return number < ERROR_CODE_CEILING and f"({number})" in text


def _requested(
    found: dict[str, list[int]], *, limit: int | None, excess: int | None
) -> int | None:
    if "requested" in found:
        return max(found["requested"])
    if "input" in found:
        # Input alone, or both parts; output alone says nothing of the request.
        return sum(found["input"]) + sum(found.get("output", ()))
    return limit + excess if limit is not None and excess is not None else None
