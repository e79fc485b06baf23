-- Append entries to a journal if the caller still owns the agent and nobody else wrote that number.
-- ARGV: prefix, agent, generation, number of the first entry, activity, counters JSON ({} = none), reserved tokens, reserved
--       cost (both given back), entry...
-- Answers {'ok', exhausted limit or ''} | {'stale'} | {'cancelled'}
local id = ARGV[2]
local number = tonumber(ARGV[4])
local refused = refusal(id, ARGV[3], number, #ARGV - 8)
if refused then return { refused } end
for i = 9, #ARGV do append(id, number + i - 9, ARGV[i]) end
local job = field(id, 'job')
local counters = cjson.decode(ARGV[6])
local changed = false
for name, by in pairs(counters) do
  redis.call('HINCRBY', agent_key(id), name, string.format('%.0f', by))
  redis.call('HINCRBY', job_key(job), name, string.format('%.0f', by))
  changed = true
end
if ARGV[7] ~= '0' then redis.call('HINCRBY', job_key(job), 'reserved_tokens', '-' .. ARGV[7]) end
if ARGV[8] ~= '0' then redis.call('HINCRBY', job_key(job), 'reserved_cost', '-' .. ARGV[8]) end
if ARGV[7] ~= '0' or ARGV[8] ~= '0' then redis.call('HDEL', agent_key(id), 'reserved_tokens', 'reserved_cost') end
redis.call('HSET', agent_key(id), 'activity', ARGV[5], 'active', NOW)
if changed then emit(job, 'progress', id, 'activity', ARGV[5]) end
return { 'ok' }
