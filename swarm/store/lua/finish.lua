-- End an agent from its own segment: the last entry, the record, the parent's wake-up and the sums, all in one step.
--   unless_mail  '1': unread mail prevents the end
--   data         the answer as JSON, or ''
--   rejection    the reply to senders of unread messages
--   stopped_at   the limit that ended it, or ''
-- Returns {'ok', publish, kill, rest} | {'mail'} | {'stale'} | {'cancelled'}
step('finish', function(id, gen, number, entry, state, text, reason, unless_mail, data, rejection, stopped_at)
  number = tonumber(number)
  local refused = agents.refusal(id, gen, { [state] = true }, number, 1)
  if refused then return { refused } end
  local job, parent, name, unread, unread_notes = fields(id, 'job', 'parent', 'name', 'unread', 'unread_notes')
  if unless_mail == '1' and count(unread) > 0 then return { 'mail' } end
  agents.append(id, job, number, entry)
  if count(unread) > count(unread_notes) then
    for _, found in ipairs(redis.call('XREVRANGE', P .. ':mail:' .. id, '+', '-', 'COUNT', unread)) do
      local message = {}
      for i = 1, #found[2], 2 do message[found[2][i]] = found[2][i + 1] end
      if message.from == job then
        agents.deliver(job, id, name or 'root', 'message', rejection, found[1])
      elseif message.kind ~= 'notification' and not has_ended(message.from) then
        agents.notify(message.from, { what = 'note', text = rejection })
      end
    end
  end
  if data ~= '' then
    redis.call('HSET', agent_key(id), 'data', data)
    if parent == '' then redis.call('HSET', job_key(job), 'data', data) end
  end
  if stopped_at ~= '' then
    redis.call('HSET', agent_key(id), 'stopped_at', stopped_at)
    if parent == '' then redis.call('HSET', job_key(job), 'stopped_at', stopped_at) end
  end
  endings.end_agent(id, state, text, reason, false)
  for i = #kill, 1, -1 do if kill[i] == id then table.remove(kill, i) end end
  return { 'ok', publish, kill, rest }
end, { when_full = true })
