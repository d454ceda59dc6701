"""Which conversation a request belongs to, and what the provider has seen of it.

Rules:
- A conversation is found by the longest lineage that an accepted request ended with.
- A history that goes on from a place more often than it was sent is an edit; one that
  was sent twice may go on twice: then it is a fork, a conversation of its own.
- A fork is compared with what was sent at its place, whatever was sent elsewhere since.
- Bounded everywhere; the least recently used conversation goes as a whole.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec

from deuz_compiler import Baseline, Prefix
from deuz_proxy.calls import Sighting
from deuz_proxy.stores.conversation_state import ConversationState, Place

_MOST_BASELINES = 4
_MOST_NODES = 8
_NEWEST = slice(None, -7, -1)  # The last six: one that goes on has two or four new.


class _Node(msgspec.Struct, gc=False, eq=False):
    """A place where a request ended: how much more often it was sent than it went on.

    `baselines` are what was sent there with each head, kept while it may still go on.
    """

    key: bytes
    conversation: str
    waiting: int
    baselines: tuple[Baseline, ...] = ()

    def go_on(self) -> None:
        self.waiting -= 1
        if self.waiting <= 0:
            self.baselines = ()


class _Conversation(msgspec.Struct, gc=False, eq=False):
    baselines: tuple[Baseline, ...] = ()
    nodes: list[_Node] = msgspec.field(default_factory=list)
    newest: bytes = b""

    def return_to(self, node: _Node, baseline: Baseline) -> None:
        """Take a place that is known for the last one; the first stays the first."""
        if node in self.nodes[1:]:
            self.nodes.remove(node)
            self.nodes.append(node)
        node.waiting += 1
        node.baselines = _with(node.baselines, baseline)


class Tracker:
    """Baselines by conversation. Used from the loop's thread only."""

    def __init__(
        self,
        *,
        new_id: Callable[[], str],
        max_conversations: int = 10_000,
        max_text_bytes: int = 16_777_216,
    ) -> None:
        self._new_id = new_id
        self._max_conversations = max_conversations
        self._conversations: OrderedDict[str, _Conversation] = OrderedDict()
        self._nodes: dict[bytes, _Node] = {}
        self._sessions: OrderedDict[bytes, str] = OrderedDict()
        self._elsewhere: OrderedDict[bytes, None] = OrderedDict()
        self._texts = _Texts(max_text_bytes)
        self.kept_text = self._texts.get

    def __len__(self) -> int:
        """Return the number of conversations remembered."""
        return len(self._conversations)

    def sight(
        self,
        keys: Sequence[bytes],
        current: Prefix,
        *,
        session: bytes | None,
        is_probe: bool,
    ) -> Sighting:
        """Return the request's conversation and its baselines, the latest first.

        `keys` are the lineage keys of the request's turns behind the leading system
        ones; nothing is changed by looking.
        """
        node = self._longest(keys)
        if node is None:
            return self._unseen(current, session, is_probe=is_probe)
        conversation = self._conversations[node.conversation]
        baselines, there = conversation.baselines, node.baselines
        if there and node.key not in (conversation.newest, keys[-1]):
            there = _headed_first(there, current)
            return Sighting(self._new_id(), (*there, *baselines), is_fork=True)
        # Those of the newest place are those of the conversation, as a rule.
        if there and there != baselines:
            baselines += tuple([old for old in there if old not in baselines])
        return Sighting(node.conversation, baselines)

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
        node, first, newest = self._longest(keys), keys[0], keys[-1]
        is_known = node is not None and node.key == newest
        # Equal requests under way together each looked like a new conversation.
        name = node.conversation if node and is_known else sighting.conversation
        conversation = self._conversations.get(name) or self._begin(name)
        self._conversations.move_to_end(name)
        if node is not None and not is_known:
            node.go_on()
        if first not in self._nodes and first not in self._elsewhere and len(keys) > 1:
            # It went on at once: whatever else goes on from there is an edit.
            self._add(conversation, _Node(first, name, 0))
            # For that, the very place may have been put out.
            is_known = newest in self._nodes
        if node is not None and is_known:
            conversation.return_to(node, baseline)
        else:
            self._add(conversation, _Node(newest, name, 1, (baseline,)))
        conversation.newest = newest
        conversation.baselines = _with(conversation.baselines, baseline)
        for digest, text in texts:
            self._texts.put(digest, text)
        if session is not None and not sighting.is_side_call:
            self.note_session(session, name)
        if len(self._conversations) > self._max_conversations:
            self._shrink()

    def conversation_of(self, keys: Sequence[bytes]) -> str | None:
        """Return the conversation that a history goes on from, if one is known."""
        node = self._longest(keys)
        return node.conversation if node else None

    def note_frontier(self, conversation: str, tokens: int) -> None:
        """Keep how much of its newest prefix the provider said it holds in cache."""
        known = self._conversations.get(conversation)
        if known is not None and known.baselines:
            newest = _with_frontier(known.baselines[0], tokens)
            known.baselines = (newest, *known.baselines[1:])
            node = self._nodes.get(known.newest)
            if node is not None:
                node.baselines = _with(node.baselines, newest)

    def longest(self, keys: Sequence[bytes]) -> tuple[int, str | None]:
        """Return how many of the keys lead to the longest place known, and whose it is.

        0 and None if none of them does.
        """
        node = self._longest(keys)
        if node is None:
            return 0, None
        return len(keys) - keys[::-1].index(node.key), node.conversation

    def go_on_from(self, key: bytes) -> None:
        """Note that a history went on from this place, as another conversation."""
        node = self._nodes.get(key)
        if node is not None:
            node.go_on()

    def session_of(self, session: bytes) -> str | None:
        """Return the conversation that a session was seen with last."""
        return self._sessions.get(session)

    def state_of(self, name: str) -> ConversationState | None:
        """Return all that is known of a conversation, if it is."""
        known = self._conversations.get(name)
        if known is None:
            return None
        numbers: dict[Baseline, int] = {}

        def number(baseline: Baseline) -> int:
            return numbers.setdefault(baseline, len(numbers))

        latest = tuple([number(each) for each in known.baselines])
        # Of how often it was sent and went on, the difference is all that is asked for.
        places = tuple(
            [
                Place(node.key, node.waiting, 0, tuple(map(number, node.baselines)))
                for node in known.nodes
                if self._nodes.get(node.key) is node
            ]
        )
        return ConversationState(tuple(numbers), latest, places, known.newest)

    def note_session(self, session: bytes, name: str) -> None:
        """Note which conversation a session was seen with last."""
        self._sessions[session] = name
        self._sessions.move_to_end(session)
        while len(self._sessions) > self._max_conversations:
            self._sessions.popitem(last=False)

    def take(self, name: str, state: ConversationState) -> None:
        """Put what somebody else knows of a conversation in place of what is here."""
        for node in self._conversations.pop(name, _Conversation()).nodes:
            self._forget(node)

        def listed(numbers: Sequence[int]) -> tuple[Baseline, ...]:
            return tuple([state.baselines[number] for number in numbers])

        nodes = [
            _Node(at.key, name, at.seen - at.continued, listed(at.baselines))
            for at in state.places
        ]
        self._nodes.update([(node.key, node) for node in nodes])
        self._conversations[name] = _Conversation(
            listed(state.latest), nodes, state.newest
        )
        self._shrink()

    def note_elsewhere(self, key: bytes) -> None:
        """Note that a place is known, though not here: it is nobody's to take."""
        self._elsewhere[key] = None
        while len(self._elsewhere) > self._max_conversations:
            self._elsewhere.popitem(last=False)

    def keep_text(self, digest: bytes, text: bytes) -> None:
        """Remember a text of tools or system by its digest."""
        self._texts.put(digest, text)

    def _longest(self, keys: Sequence[bytes]) -> _Node | None:
        nodes = self._nodes
        # As a rule, one of the last few is known, or none of thousands.
        for key in keys[_NEWEST]:
            if (node := nodes.get(key)) is not None:
                return node
        if nodes.keys().isdisjoint(keys):
            return None
        return next(filter(None, map(nodes.get, reversed(keys))))

    def _unseen(
        self, current: Prefix, session: bytes | None, *, is_probe: bool
    ) -> Sighting:
        main = self._sessions.get(session) if session else None
        known = self._conversations.get(main) if main else None
        is_apart = known is not None and any(
            known.baselines[0].outbound.head(name).digest != current.head(name).digest
            for name in ("tools", "system")
        )
        return Sighting(self._new_id(), is_side_call=is_probe or is_apart)

    def _begin(self, name: str) -> _Conversation:
        return self._conversations.setdefault(name, _Conversation())

    def _add(self, conversation: _Conversation, node: _Node) -> None:
        """Take a place that is new for the conversation's last one."""
        nodes = conversation.nodes
        self._nodes[node.key] = node
        nodes.append(node)
        if len(nodes) > _MOST_NODES:
            self._forget(nodes.pop(_least_needed(nodes)))

    def _forget(self, node: _Node) -> None:
        # Its key may be another conversation's by now.
        if self._nodes.get(node.key) is node:
            del self._nodes[node.key]

    def _shrink(self) -> None:
        while len(self._conversations) > self._max_conversations:
            _, conversation = self._conversations.popitem(last=False)
            for node in conversation.nodes:
                self._forget(node)


def _least_needed(nodes: Sequence[_Node]) -> int:
    """Return the oldest place that nobody waits at, else the oldest.

    The first stays: edits of early turns are recognised by it. So does the last: it is
    where the conversation stands.
    """
    for at in range(1, len(nodes) - 1):
        if not nodes[at].baselines:
            return at
    return 1


class _Texts:
    """Texts of tools and system by digest: shared, bounded in bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._texts: OrderedDict[bytes, bytes] = OrderedDict()

    def get(self, digest: bytes) -> bytes | None:
        return self._texts.get(digest)

    def put(self, digest: bytes, text: bytes) -> None:
        if digest in self._texts:
            self._texts.move_to_end(digest)
            return
        self._texts[digest] = text
        self._bytes += len(text)
        while self._bytes > self._max_bytes:
            _, gone = self._texts.popitem(last=False)
            self._bytes -= len(gone)


def _headed_first(
    baselines: tuple[Baseline, ...], current: Prefix
) -> tuple[Baseline, ...]:
    """Put those with the request's own head first."""
    return tuple(
        sorted(baselines, key=lambda old: not old.outbound.is_headed_like(current))
    )


def _with_frontier(old: Baseline, tokens: int) -> Baseline:
    # In the order of its fields: by name, each is looked for among all of them.
    return Baseline(
        old.plain,
        old.outbound,
        old.at,
        old.ttl_seconds,
        tokens,
        old.is_ledger_lost,
        old.tried,
        old.entries,
        old.held,
    )


def _with(baselines: tuple[Baseline, ...], newest: Baseline) -> tuple[Baseline, ...]:
    """Put the newest first; of others, keep those with another head."""
    if not baselines:
        return (newest,)
    sent = newest.outbound
    if len(baselines) == 1:
        old = baselines[0].outbound
        if old is sent or sent.is_headed_like(old):
            return (newest,)
    others = [
        old
        for old in baselines
        if old.outbound is not sent and not old.outbound.is_headed_like(sent)
    ]
    return (newest, *others[: _MOST_BASELINES - 1])
