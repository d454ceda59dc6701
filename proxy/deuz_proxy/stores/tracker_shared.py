"""The tracker of several replicas, or of a process that starts again.

Rules:
- Every request is judged by the tracker in this process; before that, what others saw
  of its conversation is loaded, and after it, what was seen is saved, off its way.
- Whoever saves goes on from what was saved last: if somebody else was faster, theirs
  is taken first, and what was recorded here is recorded on top of it once more.
- A store that fails costs the request nothing but its deadline: it is judged by what
  this process saw.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from deuz_compiler import Baseline, Prefix
from deuz_proxy.calls import Sighting
from deuz_proxy.errors import StoreFailed
from deuz_proxy.stores.aside import Aside
from deuz_proxy.stores.conversation_state import (
    ConversationState,
    open_state,
    seal_state,
)
from deuz_proxy.stores.conversations import (
    LONGEST_TEXT_BYTES,
    MOST_CONVERSATIONS,
    Ask,
    Conversations,
    Found,
    Save,
)
from deuz_proxy.stores.gate import Gate
from deuz_proxy.stores.tracker import Tracker

_MOST_TRIES = 4

Again = Callable[[], None]


class _Saved(NamedTuple):
    """What the store has of a conversation, as far as this process knows."""

    stamp: int
    places: frozenset[bytes]
    heads: tuple[bytes, ...]


_NOTHING = _Saved(0, frozenset(), ())


def _saved_as(stamp: int, state: ConversationState | None) -> _Saved:
    if state is None:
        return _Saved(stamp, frozenset(), ())
    return _Saved(stamp, frozenset(place.key for place in state.places), state.heads)


class SharedTracker:
    """A `ports.Tracker` and `ports.SharedTracker`. Used from the loop's thread only."""

    def __init__(
        self,
        local: Tracker,
        conversations: Conversations,
        *,
        gates: Mapping[str, Gate],
        aside: Aside,
        clock: Callable[[], float],
        ttl_seconds: float,
    ) -> None:
        self._local = local
        self._conversations = conversations
        self._loads, self._saves = gates["load"], gates["save"]
        self._aside = aside
        self._clock = clock
        self._ttl_seconds = ttl_seconds
        self._saved: OrderedDict[str, _Saved] = OrderedDict()
        # What was recorded since the last save, by conversation.
        self._unsaved: dict[str, list[Again]] = {}
        # The conversation of which a save is under way, with all its tries: there is
        # one at a time.
        self._saving: str | None = None
        self._sessions: dict[str, bytes] = {}
        self.kept_text = local.kept_text

    async def load(self, keys: Sequence[bytes], *, session: bytes | None) -> None:
        """Take what others saw of this history's conversation; never fails."""
        if not keys:
            return
        count, name = self._local.longest(keys)
        if name is not None:
            session = None  # Its place tells more.
        elif session is not None:
            name = self._local.session_of(session)
        saved = self._saved.get(name, _NOTHING) if name else _NOTHING
        first = None if self._local.longest(keys[:1])[0] else keys[0]
        ask = Ask(keys[count:], session, name, saved.stamp, saved.heads, first)
        try:
            found = await self._find(ask)
        except StoreFailed:
            return
        if found is not None:
            self._take_newer(found, ask)
            if session is not None:
                self._local.note_session(session, found.name)
            if found.is_first_known:
                self._local.note_elsewhere(keys[0])

    def sight(
        self,
        keys: Sequence[bytes],
        current: Prefix,
        *,
        session: bytes | None,
        is_probe: bool,
    ) -> Sighting:
        """Return the request's conversation and its baselines, the latest first."""
        return self._local.sight(keys, current, session=session, is_probe=is_probe)

    def record(
        self,
        sighting: Sighting,
        keys: Sequence[bytes],
        baseline: Baseline,
        *,
        session: bytes | None,
        texts: Sequence[tuple[bytes, bytes]],
    ) -> None:
        """Take an accepted request as its conversation's latest baseline."""
        if not keys:
            return
        again = partial(
            self._local.record,
            sighting,
            keys,
            baseline,
            session=session,
            texts=texts,
        )
        count, parent = self._local.longest(keys)
        again()
        _, name = self._local.longest(keys)
        if name is None:
            return
        if parent is not None and parent != name:
            # A fork: its parent's place has gone on once more.
            went_on = partial(self._local.go_on_from, keys[count - 1])
            self._save_later(parent, went_on)
        if session is not None and not sighting.is_side_call:
            self._sessions[name] = session
        self._save_later(name, again)

    def conversation_of(self, keys: Sequence[bytes]) -> str | None:
        """Return the conversation that a history goes on from, if one is known."""
        return self._local.conversation_of(keys)

    def note_frontier(self, conversation: str, tokens: int) -> None:
        """Keep how much of its newest prefix the provider said it holds in cache."""
        again = partial(self._local.note_frontier, conversation, tokens)
        again()
        if self._local.state_of(conversation) is not None:
            self._save_later(conversation, again)

    async def settle(self) -> None:
        """Return when all that was recorded is saved, or given up."""
        await self._aside.settle()

    def _save_later(self, name: str, again: Again) -> None:
        waiting = self._unsaved.get(name)
        if waiting is not None:
            waiting.append(again)
            return
        self._unsaved[name] = [again]
        if not self._aside.add(partial(self._save, name)):
            self._unsaved.pop(name, None)
            self._sessions.pop(name, None)

    async def _save(self, name: str) -> None:
        """Save a conversation, on top of what others saved meanwhile."""
        self._saving = name
        try:
            await self._save_on_top(name)
        finally:
            self._saving = None

    async def _save_on_top(self, name: str) -> None:
        session: bytes | None = None
        for _ in range(_MOST_TRIES):
            # What comes from here on is saved with the next one.
            recorded = self._unsaved.pop(name, [])
            # A try that others were faster than has not kept the session either.
            session = self._sessions.pop(name, session)
            if await self._try_to_save(name, session):
                return
            found = await self._find(Ask((), None, name, -1, ()))
            # Not before: it stands for a save to come, and a store that fails has none.
            self._unsaved[name] = [*recorded, *self._unsaved.get(name, ())]
            if found is not None:
                self._take(found)
        self._unsaved.pop(name, None)

    async def _try_to_save(self, name: str, session: bytes | None) -> bool:
        state = self._local.state_of(name)
        if state is None:
            return True
        saved = self._saved.get(name, _NOTHING)
        places = frozenset(place.key for place in state.places)
        heads = state.heads
        save = Save(
            name=name,
            stamp=saved.stamp,
            sealed=seal_state(name, state),
            heads=heads,
            places=[p.key for p in state.places if p.key not in saved.places],
            gone=[key for key in saved.places if key not in places],
            session=session,
            texts=self._texts([head for head in heads if head not in saved.heads]),
        )
        work = partial(
            self._conversations.save,
            save,
            now=self._clock(),
            ttl_seconds=self._ttl_seconds,
        )
        is_saved = await self._saves.ask(work)
        self._saves.say("save", int(is_saved), (0, 0))
        if is_saved:
            self._remember(name, _saved_as(saved.stamp + 1, state))
        return is_saved

    def _texts(self, heads: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        found = [(head, self._local.kept_text(head)) for head in heads]
        return [(h, t) for h, t in found if t and len(t) <= LONGEST_TEXT_BYTES]

    async def _find(self, ask: Ask) -> Found | None:
        oldest = self._clock() - self._ttl_seconds
        work = partial(self._conversations.find, ask, oldest=oldest)
        found = await self._loads.ask(work)
        self._loads.say("load", int(found is not None), (0, 0))
        return found

    def _take_newer(self, found: Found, ask: Ask) -> None:
        """Take what was found, unless this process has saved or taken more meanwhile.

        What is being saved is in nothing that was found: its save takes what is newer.
        """
        stamp = self._saved.get(found.name, _NOTHING).stamp
        # A store that was emptied begins anew, with lower stamps.
        is_as_asked = (found.name, stamp) == (ask.name, ask.stamp)
        is_newer = found.stamp > stamp or (is_as_asked and found.stamp != stamp)
        if is_newer and found.name != self._saving:
            self._take(found)

    def _take(self, found: Found) -> None:
        if found.sealed is None:
            return
        state = open_state(found.name, found.sealed)
        for digest, text in found.texts:
            self._local.keep_text(digest, text)
        # Damaged, or of another version: it is overwritten by the next save.
        if state is not None:
            self._local.take(found.name, state)
            for again in self._unsaved.get(found.name, ()):
                again()
        self._remember(found.name, _saved_as(found.stamp, state))

    def _remember(self, name: str, saved: _Saved) -> None:
        self._saved[name] = saved
        self._saved.move_to_end(name)
        while len(self._saved) > MOST_CONVERSATIONS:
            self._saved.popitem(last=False)
