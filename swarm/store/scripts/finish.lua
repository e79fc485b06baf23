-- End an agent by its own segment: the last entry, the record, the parent's wake-up and the sums, all in one step.
-- ARGV: prefix, agent, generation, number of the entry, entry, state, text, reason, '1' if unread mail forbids it,
--       the answer as JSON or ''
-- Answers {'ok', publish, kill} | {'mail'} | {'stale'} | {'cancelled'}
local id = ARGV[2]
local number = tonumber(ARGV[4])
local refused = refusal(id, ARGV[3], { [ARGV[6]] = true }, number, 1)
if refused then return { refused } end
if ARGV[9] == '1' and tonumber(field(id, 'unread') or '0') > 0 then return { 'mail' } end
append(id, number, ARGV[5])
if ARGV[10] ~= '' then
  redis.call('HSET', agent_key(id), 'data', ARGV[10])
  if field(id, 'parent') == '' then redis.call('HSET', job_key(field(id, 'job')), 'data', ARGV[10]) end
end
end_agent(id, ARGV[6], ARGV[7], ARGV[8], false)
for i = #kill, 1, -1 do if kill[i] == id then table.remove(kill, i) end end
return { 'ok', publish, kill }
