-- Cancel an agent and everything below it, at once and for good: every later write of theirs is refused.
-- A parent can start the next run of an agent that it has stopped itself (spawn.lua).
--   by, gen  the cancelling agent and its generation, or an outside author and 0
-- Returns {'ok', publish, kill, rest} | {'unknown'} | {'refused', 'not live' | 'stale', JSON}
step('cancel', function(id, reason, by, gen)
  local from_inside = tonumber(gen) > 0
  local refused = from_inside and causes.fence(by, gen)
  if refused then return refused end
  if redis.call('EXISTS', agent_key(id)) == 0 then return { 'unknown' } end
  if endings.end_agent(id, 'cancelled', '', reason, true, nil, by) then
    -- The agent that stopped it may continue it.
    redis.call('HSET', agent_key(id), 'stopped_by', from_inside and by or '')
  else
    -- A person's cancellation is final.
    if not from_inside then redis.call('HDEL', agent_key(id), 'stopped_by') end
    local job = field(id, 'job')
    endings.begin_end_below(id, job, reason)
    if endings.settle(job) then rest[1] = job end
  end
  return { 'ok', publish, kill, rest }
end, { when_full = true })
