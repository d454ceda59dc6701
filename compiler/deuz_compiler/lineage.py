"""A conversation is recognised by its content: a chain of rendered digests.

Rules:
- The chain starts at a root keyed with the credential: no other tenant can compute it.
- Tools and leading system text are not in it: a nonce there must not lose placements.
- Equal histories have equal chains, on any replica, after any restart.
"""

import hashlib

import xxhash

from deuz_compiler.wires.envelope import Envelope
from deuz_compiler.wires.scanner import SCANNER
from deuz_compiler.wires.turns import DIGEST_BYTES, Turns

# Bump when what is hashed changes: old entries then miss instead of misleading.
_VERSION = b"deuz lineage 1"


def scope_root(credential: bytes, *, scope: str) -> bytes:
    """Return the 16-byte root of all lineages of one credential and scope."""
    key = credential
    if len(key) > hashlib.blake2b.MAX_KEY_SIZE:
        key = hashlib.sha256(key).digest()
    text = _VERSION + b"\0" + scope.encode()
    return hashlib.blake2b(text, key=key, digest_size=16).digest()


def seed_of(root: bytes) -> int:
    """Return the scope's seed for turn digests: guessing one needs the credential."""
    return int.from_bytes(root[8:16], "big")


def chain(
    envelope: Envelope, *, root: bytes, known: tuple[bytes, ...] = ()
) -> tuple[bytes, ...]:
    """Return one 24-byte key for each turn: entry i stands for the turns 0 to i.

    Leading system turns all have the key of the empty history. The first eight bytes
    are the root's, so a collision can never cross a scope. `known` are the keys of the
    first turns under this root, where they were made before.
    """
    return keys_of(envelope.turns, envelope.lead, root=root, known=known)


def keys_of(
    turns: Turns, lead_count: int, *, root: bytes, known: tuple[bytes, ...] = ()
) -> tuple[bytes, ...]:
    """Return the keys of these turns, of which so many, at most, are leading ones."""
    scope = root[:8]
    link = known[-1][8:] if known else root
    count, made = len(turns.kinds), len(known)
    # A call of `min` takes longer than all the rest of this for a short history.
    lead_count = lead_count if lead_count < count else count
    if lead_count > made:
        known += (scope + link,) * (lead_count - made)
        made = lead_count
    links = SCANNER.links if SCANNER else _links
    return known + links(scope, link, turns.digests[made * DIGEST_BYTES :])


def _links(scope: bytes, link: bytes, digests: bytes) -> tuple[bytes, ...]:
    digest, keys = xxhash.xxh3_128_digest, []
    for at in range(0, len(digests), DIGEST_BYTES):
        link = digest(link + digests[at : at + DIGEST_BYTES])
        keys.append(scope + link)
    return tuple(keys)
