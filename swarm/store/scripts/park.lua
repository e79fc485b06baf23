-- Give the process back until a condition holds, unless it holds already.
-- Whatever can make a condition true looks at the same keys in one step of its own, so no wake-up is lost.
-- ARGV: prefix, agent, generation, number of the entry, entry, mode ('all' | 'any'), mail ('1' | '0'), until or '', child id...
-- Answers {'parked', publish} | {'go on'} | {'stale'} | {'cancelled'}
local id = ARGV[2]
local number = tonumber(ARGV[4])
local refused = refusal(id, ARGV[3], { parked = true, queued = true }, number, 1)
if refused then return { refused } end
local mode, until_time = ARGV[6], ARGV[8]
local alive, ended = {}, 0
for i = 9, #ARGV do
  local state = field(ARGV[i], 'state')
  if not state or TERMINAL[state] then ended = ended + 1 else alive[#alive + 1] = ARGV[i] end
end
local asked = #ARGV - 8
if asked > 0 and (#alive == 0 or (mode == 'any' and ended > 0)) then return { 'go on' } end
if until_time ~= '' and tonumber(until_time) <= NOW then return { 'go on' } end
append(id, number, ARGV[5])
local job = field(id, 'job')
redis.call('HSET', agent_key(id), 'state', 'parked', 'wait_mode', mode, 'wait_mail', ARGV[7], 'active', NOW)
redis.call('DEL', await_key(id))
for _, child in ipairs(alive) do redis.call('SADD', await_key(id), child) end
if until_time ~= '' then redis.call('ZADD', P .. ':timers', until_time, id) end
leave(id, job)
emit(job, 'parked', id, 'children', #alive, 'until', until_time)
return { 'parked', publish }
