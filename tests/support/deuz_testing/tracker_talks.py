"""Histories of words, one a turn, shown to a tracker and recorded as accepted."""

from collections.abc import Sequence

from deuz_compiler import (
    Baseline,
    Prefix,
    Verdict,
    chain,
    judge,
    lift,
    plain_prefix,
)
from deuz_proxy.calls import Sighting
from deuz_proxy.ports import Tracker
from deuz_proxy.stores.tracker_shared import SharedTracker
from deuz_testing.bodies import anthropic_body, user

ROOT = b"r" * 16
Shown = tuple[Sequence[bytes], Prefix, bytes]


def show(words: str, *, system: str = "s", root: bytes = ROOT) -> Shown:
    """Return keys, prefix and body of a history whose turns are the words."""
    body = anthropic_body([user(word) for word in words.split()], system=system)
    envelope = lift("anthropic", body)
    keys = chain(envelope, root=root)
    return keys, plain_prefix(envelope), body


class Talk:
    """What a tracker says of one request after the other. `at` counts them."""

    def __init__(self) -> None:
        self.at = 0.0

    def send(
        self,
        tracker: Tracker,
        words: str,
        *,
        system: str = "s",
        session: bytes | None = None,
        root: bytes = ROOT,
    ) -> tuple[Sighting, Verdict]:
        """Judge a request and record it as accepted."""
        self.at += 1
        keys, prefix, body = show(words, system=system, root=root)
        sighting = tracker.sight(keys, prefix, session=session, is_probe=False)
        current = Baseline(prefix, prefix, self.at, 300.0)
        kept = tracker.kept_text
        verdict = judge(sighting.baselines, current, body=body, kept=kept)
        text = body[prefix.system.start : prefix.system.end]
        tracker.record(
            sighting,
            keys,
            current,
            session=session,
            texts=[(prefix.system.digest, text)],
        )
        return sighting, verdict

    async def send_shared(
        self,
        tracker: SharedTracker,
        words: str,
        *,
        system: str = "s",
        session: bytes | None = None,
        root: bytes = ROOT,
    ) -> tuple[Sighting, Verdict]:
        """Do the same behind a load, and wait until it is saved."""
        keys, _, _ = show(words, system=system, root=root)
        await tracker.load(keys, session=session)
        told = self.send(tracker, words, system=system, session=session, root=root)
        await tracker.settle()
        return told
