"""One text for each class on which token estimates are calibrated and tested.

Prose, Markdown and code stand as files beside the tests; data is made, always alike.
"""

import base64
import json
import random
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[2] / "compiler/tokens/samples"


def classes_of_text() -> dict[str, str]:
    """Return one text for each class: those beside the tests, and made ones."""
    texts = {path.stem: path.read_text("utf-8") for path in sorted(SAMPLES.iterdir())}
    return texts | made_texts(random.Random(7))


def made_texts(dice: random.Random) -> dict[str, str]:
    records = [_record(dice, 3) for _ in range(8)]
    return {
        "json": json.dumps(records, separators=(",", ":")),
        "json-indented": json.dumps(records, indent=2),
        "logs": "\n".join(_log_line(dice) for _ in range(20)),
        "base64": base64.b64encode(dice.randbytes(2000)).decode(),
        "hex": dice.randbytes(1200).hex(),
        "hexdump": "\n".join(
            f"{row * 16:08x}  {dice.randbytes(16).hex(' ')}" for row in range(40)
        ),
        "digits": "".join(str(dice.randint(0, 9)) for _ in range(2000)),
        "digit-lines": "\n".join(str(dice.randint(0, 9)) for _ in range(1000)),
        "csv": "\n".join(
            ",".join(str(dice.randint(0, 10 ** dice.randint(1, 6))) for _ in range(8))
            for _ in range(50)
        ),
    }


WORDS = [
    "alpha",
    "user",
    "order",
    "status",
    "config",
    "retry",
    "timeout",
    "index",
    "region",
    "payment",
    "shipped",
    "pending",
    "failed",
    "created",
    "name",
    "email",
    "address",
    "value",
    "count",
    "items",
    "total",
    "path",
    "method",
]


def _record(dice: random.Random, depth: int) -> object:
    if depth == 0:
        return dice.choice(
            [
                dice.randint(0, 99_999),
                round(dice.random() * 100, 2),
                True,
                None,
                dice.choice(WORDS),
                f"{dice.choice(WORDS)}-{dice.randint(1, 999)}",
                f"2026-11-{dice.randint(10, 30)}T{dice.randint(10, 23)}:00:59Z",
            ]
        )
    if dice.random() < 0.35:
        return [_record(dice, depth - 1) for _ in range(dice.randint(1, 4))]
    return {
        f"{dice.choice(WORDS)}_{dice.choice(WORDS)}": _record(dice, depth - 1)
        for _ in range(dice.randint(2, 5))
    }


def _log_line(dice: random.Random) -> str:
    level = dice.choice(["INFO", "WARN", "ERROR", "DEBUG"])
    where = f"c.e.{dice.choice(WORDS)}.{dice.choice(WORDS).title()}Service"
    return (
        f"2026-11-{dice.randint(10, 30)} {dice.randint(10, 23)}:{dice.randint(10, 59)}"
        f":07,{dice.randint(100, 999)} {level} [worker-{dice.randint(1, 16)}] {where} -"
        f" request {dice.randbytes(8).hex()} finished in {dice.randint(1, 5000)} ms"
        f" (status={dice.choice([200, 404, 500])}, peer=10.{dice.randint(0, 255)}.0.7)"
    )


def pieces_of(text: str) -> list[str]:
    """Return the text whole and in slices, so that short texts count too."""
    pieces = [text]
    for size in (250, 600):
        if len(text) > size * 3 // 2:
            starts = range(0, len(text) - size // 2, size)
            pieces += [text[start : start + size] for start in starts]
    return pieces
