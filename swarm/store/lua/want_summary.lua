-- Record a person's request to summarize an agent's conversation before its next model request.
--   wanted  JSON {id, focus}; a later one replaces it
-- Returns {'ok', state} | {'unknown'} | {'cancelled'}
step('want_summary', function(id, wanted)
  local state = field(id, 'state')
  if not state then return { 'unknown' } end
  if state == 'cancelled' then return { 'cancelled' } end
  redis.call('HSET', agent_key(id), 'wanted_summary', wanted)
  return { 'ok', state }
end)

-- Record the model that a person wants an agent to ask from its next request on. An agent that waits for its model continues at once.
--   wanted        JSON {id, model, by}; a later one replaces it
--   was           the agent's needs as the caller read them; '' to leave them as they are
--   needs, wants  as in `need`: those of an agent that does not run, and that no worker can take as it is
-- Returns {'ok', state, publish} | {'unknown'} | {'cancelled'}
step('want_model', function(id, wanted, was, needs, wants)
  local state, waits, asks, job = fields(id, 'state', 'wait_model', 'asks', 'job')
  if not state then return { 'unknown' } end
  if state == 'cancelled' then return { 'cancelled' } end
  redis.call('HSET', agent_key(id), 'wanted_model', wanted)
  if (was or '') ~= '' and state ~= 'running' and field(id, 'needs') == was then
    redis.call('HSET', agent_key(id), 'needs', needs, 'wants', wants)
    redis.call('HDEL', agent_key(id), 'asides')
    if state == 'queued' then
      admission.leave_queue(id, job)
      admission.put_on_queue(id)
    end
  end
  if state == 'parked' and (waits or asks) then agents.wake(id, 'model') end
  return { 'ok', state, publish }
end)
