"""The notation in which wordings of errors are written down as rules.

Rules:
- `<name>` in a pattern stands for the words of that name in `WORDS`; the rest is a
  regular expression over plain text.
- Gaps and repetitions are bounded, so that the cost grows with the text, not faster;
  a gap never crosses a line.
"""

import re

import msgspec


class Rule(msgspec.Struct, frozen=True, gc=False):
    """One kind of wording. `kind` says what is over its limit; None: no overflow.

    `is_vague` words are also those of quotas: with the status of one they say nothing.
    """

    name: str
    pattern: re.Pattern[str]
    kind: str | None
    is_vague: bool = False


WORDS = {
    "gap": r"[^\n]{0,60}?",
    "near": r"[^\n]{0,30}?",
    "n": r"\d{1,15}",
    # The room a model has.
    "window": (
        r"(?:context[ _-]?(?:length|window|size|limit|budget|capacity)|\bn_ctx"
        r"|\bmax_(?:\w{1,20}_)?len(?:gth)?\b|max_num_tokens"
        r"|max(?:imum)?[ _-](?:\w{1,20}[ _-]){0,2}"
        r"(?:context|model|sequence|prompt|input)"
        r"[ _-](?:\w{1,20}[ _-])?(?:length|len|size|tokens?)"
        r"|(?:model|sequence|prompt|input|token)s?[ _-](?:length |size |token )?limit"
        r"|models? (?:\w{1,20} )?context\b)"
    ),
    # Being over it.
    "over": (
        r"(?:exceed\w{0,12}|surpass\w{0,12}|overflow\w{0,12}|overr[ua]n\w{0,12}"
        r"|(?:larger|longer|greater|more|bigger|higher) than|beyond|outside|above|over"
        r"|too (?:long|large|big|many tokens) (?:for|to fit)"
        r"|(?:not|nt) fit(?: in(?:to|side)?| within)?|go(?:es)? past)"
    ),
    # Having to stay under it.
    "under": (
        r"(?:(?:can ?not|must not|should not|may not)"
        r" (?:exceed|be (?:longer|larger|more))"
        r"|(?:must|should) (?:have|be|contain|not) ?"
        r"(?:<=?|less|fewer|at most|no more|shorter|smaller|below|under|between|within"
        r"|\[\d))"
    ),
    # A limit that is not called a window.
    "ceiling": (
        r"(?:(?:token |model |configured |allowed )?limits?\b(?! of \d{1,15} [a-su-z])"
        r"|allowed|supported|length|(?:customer )?model max(?:imum)?"
        r"|max(?:imum)?(?: (?:allowed|permitted|supported|configured|context|input"
        r"|prompt|model|customer|message|sequence|number|of|the|for|this)){0,5}"
        r" (?:length|tokens?|size of|limit|\(?\d{1,15}))"
    ),
    # What the model may write.
    "output": (
        r"(?:max_(?:completion_|new_|output_)?tokens"
        r"|max ?(?:output|completion|new) ?tokens?"
        r"|(?:output|completion|generated) tokens?|maximum tokens you requested)"
    ),
    "attachment": r"(?:images?|pdfs?|videos?|audios?|files?|attachments?)",
    "body": r"(?:request|payload|body)",
}

_PLACEHOLDER = re.compile(r"<([a-z]+)>")


def make_rule(
    name: str, kind: str | None, *patterns: str, is_vague: bool = False
) -> Rule:
    """Return a rule that fits where one of the patterns is found."""
    joined = "|".join(f"(?:{pattern})" for pattern in patterns)
    spelled = _PLACEHOLDER.sub(lambda match: WORDS[match[1]], joined)
    return Rule(name=name, pattern=re.compile(spelled), kind=kind, is_vague=is_vague)
