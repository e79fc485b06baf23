-- Cancel an agent and everything below it, at once and for good: every later write of theirs is refused.
-- Returns {'ok', publish, kill} | {'unknown'}
step('cancel', function(id, reason)
  if redis.call('EXISTS', agent_key(id)) == 0 then return { 'unknown' } end
  if not end_agent(id, 'cancelled', '', reason, true) then end_below(id, reason) end
  return { 'ok', publish, kill }
end)
