-- Cancel an agent and everything below it, at once and for good: every later write of theirs is refused.
-- ARGV: prefix, agent, reason
-- Answers {'ok', publish, kill, ended (1 | 0)} | {'unknown'}
local id = ARGV[2]
if redis.call('EXISTS', agent_key(id)) == 0 then return { 'unknown' } end
local ended = end_agent(id, 'cancelled', '', ARGV[3], true)
if not ended then end_below(id, ARGV[3]) end
return { 'ok', publish, kill, ended and 1 or 0 }
