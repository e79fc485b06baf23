-- Prolong the leases of the agents a worker runs; answers those it no longer owns, which must be stopped.
-- ARGV: prefix, worker, lease seconds, agent...
local lost = {}
for i = 4, #ARGV do
  local record = redis.call('HMGET', agent_key(ARGV[i]), 'state', 'worker')
  if record[1] == 'running' and record[2] == ARGV[2] then
    redis.call('ZADD', P .. ':leases', 'XX', NOW + tonumber(ARGV[3]), ARGV[i])
  elseif record[1] and record[1] ~= 'queued' then
    lost[#lost + 1] = ARGV[i]
  end
end
return lost
