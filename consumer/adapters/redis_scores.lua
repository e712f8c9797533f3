-- Writes the results of one micro-batch as far as the fence allows, publishes each, returns how many it refused.
--
-- KEYS[i]: key of the i-th result, also its channel.
-- ARGV[1]: PUBLISH, SPUBLISH or OFF; then per key: value, ttl in seconds, status, topic, partition, offset,
-- record timestamp in ms, and 1 to override the fence (else 0).
--
-- A value begins with {"schema":N,"status":"...","source":{"topic":"...","partition":N,"offset":N,"timestamp_ms":N}
-- within its first 512 bytes; nothing else of it is read. What begins otherwise is not a result and is overwritten.
-- Offsets and milliseconds stay below 2^53, where a Lua number is exact.

local HEAD = '^{"schema":%d+,"status":"(%a+)",'
  .. '"source":{"topic":"([^"]*)","partition":(%d+),"offset":(%d+),"timestamp_ms":(%-?%d+)}'
local PER_KEY = 8

local function refused(head, status, topic, partition, offset, timestamp)
  local stored_status, stored_topic, stored_partition, stored_offset, stored_timestamp = string.match(head, HEAD)
  if not stored_status then
    return false
  end
  stored_offset, stored_timestamp = tonumber(stored_offset), tonumber(stored_timestamp)
  if stored_topic ~= topic or stored_partition ~= partition then
    return stored_timestamp > timestamp
  end
  if stored_offset == offset and stored_timestamp == timestamp then
    return stored_status == 'ok' and status ~= 'ok'
  end
  return stored_offset > offset and stored_timestamp > timestamp
end

local refusals = 0
for i, key in ipairs(KEYS) do
  local at = 2 + (i - 1) * PER_KEY
  local value, ttl, status, topic, partition = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local offset, timestamp, force = tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6]), ARGV[at + 7]
  -- pcall: a key of another type is not a result either.
  local head = redis.pcall('GETRANGE', key, 0, 511)
  if force ~= '1' and type(head) == 'string' and refused(head, status, topic, partition, offset, timestamp) then
    refusals = refusals + 1
  else
    redis.call('SET', key, value, 'EX', ttl)
  end
  if ARGV[1] ~= 'OFF' then
    redis.call(ARGV[1], key, status)
  end
end
return refusals
