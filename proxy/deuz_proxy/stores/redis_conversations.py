"""Conversations of the shared tracker in Redis or Valkey, each step as one script.

Rules:
- Everything expires by itself; an index by last use bounds the number of conversations,
  another one the bytes of texts. Who saves a conversation uses its texts.
- A conversation that is put out takes along what leads to it. A place that the server
  keeps for longer than its conversation leads nowhere.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from deuz_proxy.stores.conversations import (
    MOST_CONVERSATIONS,
    MOST_TEXT_BYTES,
    Ask,
    Found,
    Save,
)
from deuz_proxy.stores.redis_server import RedisServer

_FIND = """
local prefix, name, stamp, session = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local width, keys = tonumber(ARGV[5]), ARGV[6]
local oldest = tonumber(ARGV[7])
local found = false
for at = #keys - width + 1, 1, -width do
  found = redis.call('GET', prefix .. 'p:' .. string.sub(keys, at, at + width - 1))
  if found then break end
end
if not found and session ~= '' then
  found = redis.call('GET', prefix .. 's:' .. session)
end
if not found and name ~= '' then found = name end
if not found then return {} end
local used = redis.call('ZSCORE', KEYS[1], found)
if used and tonumber(used) <= oldest then return {} end
local held = redis.call('HMGET', prefix .. 'c:' .. found, 'stamp', 'heads', 'sealed')
if not held[3] then return {} end
local first = ARGV[8] ~= '' and redis.call('EXISTS', prefix .. 'p:' .. ARGV[8]) or 0
if found == name and held[1] == stamp then return {found, held[1], first} end
local answer = {found, held[1], first, held[3]}
local known = {}
for at = 9, #ARGV do known[ARGV[at]] = true end
local at = 1
while at <= #held[2] do
  local size = string.byte(held[2], at)
  local head = string.sub(held[2], at + 1, at + size)
  local text = not known[head] and redis.call('GET', prefix .. 't:' .. head)
  if text then
    answer[#answer + 1] = head
    answer[#answer + 1] = text
  end
  at = at + 1 + size
end
return answer
"""

_SAVE = """
local prefix, name, stamp, now, live = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local heads, sealed, session, most = ARGV[6], ARGV[7], ARGV[8], tonumber(ARGV[9])
local conversation = prefix .. 'c:' .. name
local held = redis.call('HMGET', conversation, 'stamp', 'leading')
if held[1] and held[1] ~= stamp then return 0 end
redis.call(
  'HSET', conversation, 'stamp', stamp + 1, 'heads', heads, 'sealed', sealed
)
-- Keys that lead here, in the order in which they came to.
local order, leads = {}, {}
local function lead(key)
  order[#order + 1] = key
  leads[key] = true
end
local function each(packed, visit)
  local at = 1
  while packed and at <= #packed do
    local size = string.byte(packed, at)
    visit(string.sub(packed, at + 1, at + size))
    at = at + 1 + size
  end
end
each(held[2], lead)
redis.call('PEXPIRE', conversation, live)
redis.call('ZADD', KEYS[1], now, name)
redis.call('PEXPIRE', KEYS[1], live)
if session ~= '' then
  redis.call('SET', prefix .. 's:' .. session, name, 'PX', live)
  lead('s:' .. session)
end
local most_text, at = tonumber(ARGV[12]), 13
for _ = 1, tonumber(ARGV[10]) do
  redis.call('SET', prefix .. 'p:' .. ARGV[at], name, 'PX', live)
  lead('p:' .. ARGV[at])
  at = at + 1
end
local function part(key, from)
  if redis.call('GET', prefix .. key) == from then redis.call('DEL', prefix .. key) end
end
for _ = 1, tonumber(ARGV[11]) do
  part('p:' .. ARGV[at], name)
  leads['p:' .. ARGV[at]] = false
  at = at + 1
end
-- Some clients name another session in each request.
local packed, sessions = '', 0
for last = #order, 1, -1 do
  local key = order[last]
  local is_session = leads[key] and string.sub(key, 1, 2) == 's:'
  if is_session then sessions = sessions + 1 end
  if is_session and sessions > 4 then
    part(key, name)
  elseif leads[key] then
    packed = string.char(#key) .. key .. packed
  end
  leads[key] = false
end
redis.call('HSET', conversation, 'leading', packed)
local texts, sizes, total = KEYS[2], KEYS[3], KEYS[4]
local function drop(head)
  redis.call('DECRBY', total, redis.call('HGET', sizes, head) or 0)
  redis.call('HDEL', sizes, head)
  redis.call('ZREM', texts, head)
  redis.call('DEL', prefix .. 't:' .. head)
end
for at = at, #ARGV, 2 do
  drop(ARGV[at])
  redis.call('SET', prefix .. 't:' .. ARGV[at], ARGV[at + 1], 'PX', live)
  redis.call('HSET', sizes, ARGV[at], #ARGV[at + 1])
  redis.call('ZADD', texts, now, ARGV[at])
  redis.call('INCRBY', total, #ARGV[at + 1])
end
each(heads, function(head)
  if redis.call('PEXPIRE', prefix .. 't:' .. head, live) == 1 then
    redis.call('ZADD', texts, 'XX', now, head)
  end
end)
local gone = tonumber(now) - live / 1000
for _, head in ipairs(
  redis.call('ZRANGEBYSCORE', texts, '-inf', gone, 'LIMIT', 0, 100)
) do drop(head) end
for _ = 1, 100 do
  if tonumber(redis.call('GET', total) or 0) <= most_text then break end
  local oldest = redis.call('ZRANGE', texts, 0, 0)[1]
  -- The server has dropped the index: what it was of expires.
  if not oldest then redis.call('DEL', sizes, total) break end
  drop(oldest)
end
for _, key in ipairs({texts, sizes, total}) do redis.call('PEXPIRE', key, live) end
for _ = 1, 100 do
  if redis.call('ZCARD', KEYS[1]) <= most then break end
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  redis.call('ZREM', KEYS[1], oldest)
  each(redis.call('HGET', prefix .. 'c:' .. oldest, 'leading'), function(key)
    part(key, oldest)
  end)
  redis.call('DEL', prefix .. 'c:' .. oldest)
end
return 1
"""


class RedisConversations:
    """A `conversations.Conversations`; the server is its owner's."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._prefix = server.key(b"")
        self._index = [server.key(b"conversations")]
        texts = (b"texts", b"textsizes", b"textbytes")
        self._saved = [*self._index, *map(server.key, texts)]

    async def find(self, ask: Ask, *, oldest: float) -> Found | None:
        """Return the conversation of a history, if it was used since."""
        head: list[Any] = [
            self._prefix,
            ask.name or b"",
            ask.stamp,
            ask.session or b"",
            len(ask.keys[0]) if ask.keys else 1,
            b"".join(ask.keys),
            repr(oldest),
            ask.first or b"",
        ]
        answer = await self._server.run(_FIND, self._index, [*head, *ask.heads])
        if not answer:
            return None
        name, stamp, is_first_known, *rest = answer
        sealed = rest[0] if rest else None
        texts = tuple(zip(rest[1::2], rest[2::2], strict=True))
        return Found(name.decode(), int(stamp), sealed, texts, bool(is_first_known))

    async def save(self, save: Save, *, now: float, ttl_seconds: float) -> bool:
        """Keep a conversation; False: somebody else saved it meanwhile."""
        head: list[Any] = [
            self._prefix,
            save.name,
            save.stamp,
            repr(now),
            int(ttl_seconds * 1000),
            _joined(save.heads),
            save.sealed,
            save.session or b"",
            MOST_CONVERSATIONS,
            len(save.places),
            len(save.gone),
            MOST_TEXT_BYTES,
        ]
        texts = chain.from_iterable(save.texts)
        rest = [*save.places, *save.gone, *texts]
        return bool(await self._server.run(_SAVE, self._saved, [*head, *rest]))


def _joined(heads: Sequence[bytes]) -> bytes:
    return b"".join(bytes([len(head)]) + head for head in heads)
