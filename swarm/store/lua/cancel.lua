-- Cancel an agent and everything below it, at once and for good: every later write of theirs is refused.
--   by, gen  the agent that stops it, and its generation; '' for somebody outside
-- Returns {'ok', publish, kill, rest} | {'unknown'} | {'refused', 'not live' | 'stale', JSON}
step('cancel', function(id, reason, by, gen)
  local refused = by ~= '' and fence(by, gen)
  if refused then return refused end
  if redis.call('EXISTS', agent_key(id)) == 0 then return { 'unknown' } end
  if not end_agent(id, 'cancelled', '', reason, true) then
    local job = field(id, 'job')
    begin_end_below(id, job, reason)
    if settle(job) then rest[1] = job end
  end
  return { 'ok', publish, kill, rest }
end)
