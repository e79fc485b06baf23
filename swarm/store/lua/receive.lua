-- Take messages into a journal: the entry holds them and the new cursor, and they no longer count as unread.
--   messages, notes  how many it holds, and how many of those the runtime wrote
-- Returns {'ok', unread messages left} | {'repeat'} | {'stale'} | {'cancelled'}
step('receive', function(id, gen, number, entry, messages, notes)
  number = tonumber(number)
  local refused = refusal(id, gen, { running = true }, number, 1)
  if refused then return { refused } end
  append(id, number, entry)
  subtract(agent_key(id), 'unread_notes', notes)
  return { 'ok', subtract(agent_key(id), 'unread', messages) }
end)
