-- Take messages into a journal: the entry holds them and the new cursor, and they no longer count as unread.
--   messages, notes  how many it holds, and how many of those the runtime wrote
--   up_to            the new cursor, for those who want to know whether their message was read
-- Returns {'ok', unread messages left} | {'repeat'} | {'stale'} | {'cancelled'}
step('receive', function(id, gen, number, entry, messages, notes, up_to)
  number = tonumber(number)
  local refused = agents.refusal(id, gen, { running = true }, number, 1)
  if refused then return { refused } end
  local job, turns = fields(id, 'job', 'turns')
  agents.append(id, job, number, entry)
  emit(job, 'read', id, 'up_to', up_to, 'entry', number, 'turn', count(turns) + 1)
  subtract(agent_key(id), 'unread_notes', notes)
  return { 'ok', subtract(agent_key(id), 'unread', messages) }
end)
