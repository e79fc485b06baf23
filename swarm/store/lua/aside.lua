-- Agents whose message was taken by a worker that cannot serve them: they are called no more, so that others are, until a worker that
-- can serve them takes them, or their time in line comes again.
--
-- The keys are in admission_common.lua, for who wants what not every worker offers is set aside before it is sent for.

-- Put a queued agent aside: for `seconds`, twice as long each time.
-- Returns {publish}
step('set_aside', function(id, seconds)
  local state, job = fields(id, 'state', 'job')
  if state ~= 'queued' then return { publish } end
  admission.leave_queue(id, job)
  admission.line_up(job)
  admission.lay_aside(id, tonumber(seconds))
  return { publish }
end)

-- Take some of them for a worker that can serve them. One whose job has no place for it is in line again.
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
end, { list_after = 0 })

-- Say what a running agent needs from now on, as JSON, and what of that not every worker offers.
-- Returns {'ok'} | {'cancelled'} | {'stale'}
step('need', function(id, gen, needs, wants)
  local refused = agents.refusal(id, gen, {})
  if refused then return { refused } end
  redis.call('HSET', agent_key(id), 'needs', needs, 'wants', wants)
  return { 'ok' }
end)
