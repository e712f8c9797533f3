-- Claims a prefix of keys, or renews the claim. One hash holds all claims, so that they are compared in one step.
--
-- KEYS[1]: the hash; a field is a prefix, its value "since_ms seen_ms owner".
-- ARGV: prefix, owner, since_ms of the claim that this worker had at its last look (empty: none).
-- Returns {since_ms} when the claim stands, else {0, prefix, value} of a claim that stands against it.
--
-- The elder claim stands. Where Redis has lost the claims (FLUSHALL, an eviction, a failover), a worker that had one
-- brings it back with the time it had, which is before that of any who came meanwhile. Times are those of this Redis.

local CLAIM = '^(%d+) (%d+) (.*)$'
local SEEN_MS = 10000

local key, prefix, owner, had = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function read(value)
  local since, seen, holder = string.match(value, CLAIM)
  -- Written by hand: then it is a claim all the same, and nobody's is older.
  return tonumber(since) or 0, tonumber(seen) or 0, holder or value
end

local function write(since)
  redis.call('HSET', key, prefix, string.format('%.0f %.0f %s', since, now, owner))
  return {since}
end

local function begins(text, beginning)
  return string.sub(text, 1, #beginning) == beginning
end

local own = redis.call('HGET', key, prefix)
if own then
  local since, seen, holder = read(own)
  if holder == owner then
    local first = math.min(since, had or since)
    -- Claims never overlap, so one that is there as it was needs no look at the others.
    if first == since and math.abs(now - seen) < SEEN_MS then
      return {since}
    end
    -- The claim stands also where it cannot be renewed just now: a Redis that is full takes no writes.
    redis.pcall('HSET', key, prefix, string.format('%.0f %.0f %s', first, now, owner))
    return {first}
  end
end

local younger = {}
local claims = redis.call('HGETALL', key)
for i = 1, #claims, 2 do
  local other, value = claims[i], claims[i + 1]
  if begins(other, prefix) or begins(prefix, other) then
    local since, _, holder = read(value)
    if not had or since < had or (since == had and holder <= owner) then
      return {0, other, value}
    end
    table.insert(younger, other)
  end
end
for _, other in ipairs(younger) do
  redis.call('HDEL', key, other)
end
return write(had or now)
