-- Append entries to a journal if the caller still owns the agent and nobody else wrote that number.
-- ARGV: prefix, agent, generation, number of the first entry, activity, counters JSON ({} = none), '1' to settle what was
--       reserved, hash and JSON of the prefix that a `started` entry names ('' = none), entry...
-- Answers {'ok', unread messages} | {'repeat'} | {'stale'} | {'cancelled'}
local id = ARGV[2]
local number = tonumber(ARGV[4])
local refused = refusal(id, ARGV[3], { running = true }, number, #ARGV - 9)
if refused then return { refused } end
for i = 10, #ARGV do append(id, number + i - 10, ARGV[i]) end
local job = field(id, 'job')
if ARGV[8] ~= '' then redis.call('HSETNX', job_key(job) .. ':prefixes', ARGV[8], ARGV[9]) end
local counters = cjson.decode(ARGV[6])
local changed = false
for name, by in pairs(counters) do
  redis.call('HINCRBY', agent_key(id), name, string.format('%.0f', by))
  redis.call('HINCRBY', job_key(job), name, string.format('%.0f', by))
  changed = true
end
if ARGV[7] == '1' then give_back(id, job) end
redis.call('HSET', agent_key(id), 'activity', ARGV[5], 'active', NOW)
if changed then emit(job, 'progress', id, 'activity', ARGV[5]) end
return { 'ok', tonumber(field(id, 'unread') or '0') }
