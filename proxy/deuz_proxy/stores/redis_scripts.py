"""What is done to the ledger in Redis or Valkey, each as one script: one round trip.

Rules:
- Entries are keys of their own, with a time to live, so that a server that runs out of
  memory may drop some and not all. Beside them stand an index by last use, their sizes
  and the sum of these.
- Keys of one read have one length and come as one string: what most of them are asked
  for is nothing, and nothing should cost nothing.
- Scripts name keys that they were not given: one server, or one with replicas, not a
  cluster.
"""

ENTRY_BYTES = 300
"""What an entry takes beside its bytes: key, index, size (measured with 100 000)."""

READ = """
local prefix, width, keys = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local found = {redis.call('ZCARD', KEYS[1]), tonumber(redis.call('GET', KEYS[2]) or 0)}
for at = 1, #keys, width do
  local key = string.sub(keys, at, at + width - 1)
  local sealed = redis.call('GET', prefix .. key)
  if sealed then
    found[#found + 1] = (at - 1) / width
    found[#found + 1] = redis.call('ZSCORE', KEYS[1], key)
    found[#found + 1] = sealed
  end
end
return found
"""

_DROP = """
local used, total, sizes = KEYS[1], KEYS[2], KEYS[3]
local prefix = ARGV[1]
local function drop(key)
  local size = redis.call('HGET', sizes, key)
  -- A script that has begun to write is not stopped for want of memory any more.
  if not size and redis.call('EXISTS', prefix .. key) == 0 then return end
  if size then redis.call('DECRBY', total, size) end
  redis.call('HDEL', sizes, key)
  redis.call('ZREM', used, key)
  redis.call('DEL', prefix .. key)
end
"""

COMMIT = (
    _DROP
    + """
local now, ttl = tonumber(ARGV[2]), tonumber(ARGV[3])
local max_entries, max_bytes = tonumber(ARGV[4]), tonumber(ARGV[5])
local refused, evicted = 0, 0
local touched = tonumber(ARGV[8])
for at = 9, 8 + 2 * touched, 2 do
  if redis.call('PEXPIRE', prefix .. ARGV[at], ARGV[6]) == 1 then
    -- Another one may have noted a later use.
    redis.call('ZADD', used, 'GT', ARGV[at + 1], ARGV[at])
  end
end
local old = redis.call('ZRANGEBYSCORE', used, '-inf', now - ttl, 'LIMIT', 0, 1000)
for _, key in ipairs(old) do
  drop(key)
  evicted = evicted + 1
end
for at = 9 + 2 * touched, #ARGV, 3 do
  local key, sealed, is_modest = ARGV[at], ARGV[at + 1], ARGV[at + 2] == '1'
  if not (is_modest and redis.call('EXISTS', prefix .. key) == 1) then
    local size = #sealed + tonumber(ARGV[7])
    drop(key)
    if sealed ~= '' and size > max_bytes then
      refused = refused + 1
    elseif sealed ~= '' then
      redis.call('SET', prefix .. key, sealed, 'PX', ARGV[6])
      redis.call('HSET', sizes, key, size)
      redis.call('ZADD', used, now, key)
      redis.call('INCRBY', total, size)
    end
  end
end
local function held() return tonumber(redis.call('GET', total) or 0) end
-- Others wait while a script runs: what is still too much goes with the next commit.
for _ = 1, 1000 do
  local is_over = redis.call('ZCARD', used) > max_entries or held() > max_bytes
  local oldest = is_over and redis.call('ZRANGE', used, 0, 0)[1]
  if not oldest then break end
  drop(oldest)
  evicted = evicted + 1
end
return {refused, evicted, redis.call('ZCARD', used), held()}
"""
)

DROP = (
    _DROP
    + """
for at = 2, #ARGV, 2 do
  if redis.call('GET', prefix .. ARGV[at]) == ARGV[at + 1] then drop(ARGV[at]) end
end
"""
)

REPLACE = """
local name = ARGV[1] .. ARGV[2]
local now = redis.call('GET', name)
if now ~= ARGV[3] then return now end
local size = #ARGV[4] + tonumber(ARGV[5])
local old = redis.call('HGET', KEYS[3], ARGV[2])
redis.call('SET', name, ARGV[4], 'KEEPTTL')
if old then
  redis.call('HSET', KEYS[3], ARGV[2], size)
  redis.call('INCRBY', KEYS[2], size - old)
end
return ARGV[4]
"""
