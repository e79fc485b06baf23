-- Add an event that no other step makes.
--   about  its fields: name, value, name, value…
step('emit_event', function(job, kind, id, about) emit(job, kind, id, unpack(about)) end, { list_after = 3 })

-- The same with a reason, unless the last event of this kind gave the same one, or the agent has expired. Returns 1 if it was news.
step('emit_once', function(job, kind, id, why)
  local state, last = fields(id, 'state', kind)
  if not state or last == why then return 0 end
  redis.call('HSET', agent_key(id), kind, why)
  emit(job, kind, id, 'why', why)
  return 1
end)

-- Say what a running agent does now, if `gen` is still who runs it. Returns 1 if somebody looks at it.
step('tell_activity', function(id, gen, activity)
  local state, owner = fields(id, 'state', 'gen')
  if state == 'running' and owner == gen then redis.call('HSET', agent_key(id), 'activity', activity) end
  return redis.call('EXISTS', P .. ':watch:' .. id)
end)
