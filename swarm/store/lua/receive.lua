-- Take messages into a journal: the entry holds them and the new cursor, and they no longer count as unread.
--   messages, notes  their number, and the number of those written by the runtime
--   up_to            the new cursor, which shows senders that their message was read
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
