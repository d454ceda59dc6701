"""What a conversation must remember between two compiles, as plain versioned JSON.

Rules:
- Everything a compile depends on is here, in the request, or in what the sources say:
  a state that was written and read again leads to the same bytes.
- Placements are kept in their order; of one record only the latest may come back.
- A state belongs to one line of a conversation: a fork goes on from the state it had at
  the fork, so keep states by lineage, or by a key that never forks.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from deuz_compiler.canonical import canonical_json
from deuz_compiler.errors import MalformedInput
from deuz_compiler.records.facts import PlacedRecord
from deuz_compiler.records.loading import load_record, load_records, parse_json

STATE_VERSION: Final = 1

Count = Annotated[int, Meta(ge=0, le=2**53)]


class Placement(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True
):
    """A record placed at a step; `digest` is of its full text."""

    step: Count
    source: str
    record_id: str
    revision: str = ""
    digest: str = ""
    is_mandatory: bool = False

    @property
    def key(self) -> str:
        """The name the record has as a candidate."""
        return self.placed.key

    @property
    def placed(self) -> PlacedRecord:
        """The record as the surface names it."""
        return PlacedRecord(self.source, self.record_id, self.revision, self.digest)


class RefreshState(
    msgspec.Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True
):
    """The state of one conversation.

    `last_step` and `task` are those of the last refresh that was served, or told to be
    past the limit. `is_requested` and `is_redacted` wait for the next one. `package` is
    the digest of the last block.
    """

    version: Literal[1]
    passes: Count = 0
    last_step: Count | None = None
    task: str | None = None
    is_requested: bool = False
    is_redacted: bool = False
    placements: tuple[Placement, ...] = ()
    package: str = ""

    @property
    def latest(self) -> tuple[Placement, ...]:
        """The latest placement of each record, in the order of first placement."""
        found: dict[str, Placement] = {}
        for placement in self.placements:
            found[placement.key] = placement
        return tuple(found.values())


def new_state() -> RefreshState:
    """Return the state of a conversation that has not begun."""
    return RefreshState(version=STATE_VERSION)


def write_state(state: RefreshState) -> bytes:
    """Return the one spelling of a state in JSON."""
    return canonical_json(state)


def read_state(payload: bytes) -> RefreshState:
    """Return the state in a JSON text.

    Raises:
        MalformedInput: it is not a sound state of version 1; every fault is listed.
    """
    faults: list[str] = []
    raw = parse_json(payload, where="state", faults=faults)
    rest = dict(raw) if isinstance(raw, Mapping) else raw
    placements: tuple[Placement, ...] = ()
    if isinstance(rest, dict) and "placements" in rest:
        listed = rest.pop("placements")
        placements = load_records(Placement, listed, where="placements", faults=faults)
    state = load_record(RefreshState, rest, where="state", faults=faults)
    if state is not None and state.passes and state.last_step is None:
        faults.append("state: passes without a last_step")
    if state is None or faults:
        raise MalformedInput(tuple(faults))
    return msgspec.structs.replace(state, placements=placements)
