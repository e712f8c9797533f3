-- Writes the results of one micro-batch as far as the fence allows, publishes each, returns how many it refused.
--
-- KEYS[i]: key of the i-th result, also its channel.
-- ARGV[1]: PUBLISH, SPUBLISH or OFF; then per key the value and, as one argument because every argument costs its
-- encoding: "status ttl_seconds force partition offset timestamp_ms topic"; force is 1 to override the fence, else 0.
--
-- The fence is the contract's (schemas/asyncapi.yaml, `cache`). What is there stays where it is of the same topic and
-- partition with a higher offset and an equal or later record timestamp, of another place with a later one, or an ok of
-- the same record that would get an error.
--
-- A value begins with {"schema":N,"status":"...","source":{"topic":"...","partition":N,"offset":N,"timestamp_ms":N}
-- within its first 512 bytes; nothing else of it is read. What begins otherwise is not a result and is overwritten.
-- Offsets and milliseconds stay below 2^53, where a Lua number is exact.

local HEAD = '^{"schema":%d+,"status":"(%a+)",'
  .. '"source":{"topic":"([^"]*)","partition":(%d+),"offset":(%d+),"timestamp_ms":(%-?%d+)}'
local ENTRY = '^(%a+) (%d+) (%d) (%d+) (%d+) (%-?%d+) (.*)$'

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
  -- Records of one millisecond are common. A topic made anew begins with later timestamps.
  return stored_offset > offset and stored_timestamp >= timestamp
end

local refusals = 0
for i, key in ipairs(KEYS) do
  local value = ARGV[2 * i]
  local status, ttl, force, partition, offset, timestamp, topic = string.match(ARGV[2 * i + 1], ENTRY)
  -- pcall: a key of another type is not a result either.
  local head = redis.pcall('GETRANGE', key, 0, 511)
  local fenced = force == '0' and type(head) == 'string' and head ~= ''
  if fenced and refused(head, status, topic, partition, tonumber(offset), tonumber(timestamp)) then
    refusals = refusals + 1
  else
    redis.call('SET', key, value, 'EX', ttl)
  end
  if ARGV[1] ~= 'OFF' then
    redis.call(ARGV[1], key, status)
  end
end
return refusals
