-- Add an event that no other step makes.
--   about  its fields: name, value, name, value…
step('emit_event', function(job, kind, id, about) emit(job, kind, id, unpack(about)) end, { list_after = 3 })

-- Add an event with a reason, unless the last event of this kind gave the same one, or the agent has expired. Returns 1 if it was added.
step('emit_once', function(job, kind, id, why)
  local state, last = fields(id, 'state', kind)
  if not state or last == why then return 0 end
  redis.call('HSET', agent_key(id), kind, why)
  emit(job, kind, id, 'why', why)
  return 1
end)

-- Set a running agent's activity if `gen` still owns it. Returns 1 if anyone watches it.
step('show_activity', function(id, gen, activity)
  local state, owner = fields(id, 'state', 'gen')
  if state == 'running' and owner == gen then redis.call('HSET', agent_key(id), 'activity', activity) end
  return redis.call('EXISTS', P .. ':watch:' .. id)
end)

-- Report a call's progress in one line if `gen` still owns the agent. Returns 1 if it does.
step('show_progress', function(id, gen, activity)
  local state, owner, job = fields(id, 'state', 'gen', 'job')
  if state ~= 'running' or owner ~= gen then return 0 end
  redis.call('HSET', agent_key(id), 'activity', activity)
  emit(job, 'progress', id, 'activity', activity)
  return 1
end)

-- Pass on words of an unfinished reply, while anyone watches and `gen` still owns the agent.
--   entry  the reply's future number in the journal
--   words  block, type, name, begin, text, for each piece
-- Returns 1 if anyone watches.
step('show_tokens', function(id, gen, entry, words)
  local state, owner = fields(id, 'state', 'gen')
  if state ~= 'running' or owner ~= gen or redis.call('EXISTS', P .. ':watch:' .. id) == 0 then return 0 end
  local live = P .. ':live:' .. id
  for i = 1, #words, 5 do
    redis.call('XADD', live, 'MAXLEN', '~', 1000, '*', 'entry', entry, 'block', words[i], 'type', words[i + 1], 'name', words[i + 2],
      'from', words[i + 3], 'text', words[i + 4])
  end
  redis.call('EXPIRE', live, 60)
  return 1
end, { list_after = 3 })
