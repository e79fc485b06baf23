-- Agents whose message reached a worker that cannot run them. They are no longer called, so that other agents are. A worker that can run
-- them takes them, or they return to the line in time.
--
-- The keys are in admission_common.lua, because agents with wants that not every worker offers are set aside before a call.

-- Set a queued agent aside for `seconds`, doubled each time.
-- Returns {publish}
step('set_aside', function(id, seconds)
  local state, job = fields(id, 'state', 'job')
  if state ~= 'queued' then return { publish } end
  admission.leave_queue(id, job)
  admission.line_up(job)
  admission.lay_aside(id, tonumber(seconds))
  return { publish }
end, { when_full = true })

-- Take some agents for a worker that can run them. An agent whose job has no place returns to the line.
-- Returns {publish, taken}
step('take_aside', function(ids)
  local taken = {}
  for _, id in ipairs(ids) do
    if redis.call('ZREM', P .. ':aside', id) == 1 and field(id, 'state') == 'queued' and not is_doomed(id) then
      local job = field(id, 'job')
      if admission.places_left(job) > 0 then
        redis.call('SADD', job_key(job, 'called'), id)
        redis.call('ZADD', P .. ':ready', NOW, id)
        admission.line_up(job)
        taken[#taken + 1] = id
      else
        admission.put_on_queue(id)
      end
    end
  end
  return { publish, taken }
end, { when_full = true, list_after = 0 })

-- Record a running agent's needs from now on, as JSON, and those of them that not every worker offers.
-- Returns {'ok'} | {'cancelled'} | {'stale'}
step('need', function(id, gen, needs, wants)
  local refused = agents.refusal(id, gen, {})
  if refused then return { refused } end
  redis.call('HSET', agent_key(id), 'needs', needs, 'wants', wants)
  return { 'ok' }
end)
