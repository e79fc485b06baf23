-- End an agent by its own segment: the last entry, the record, the parent's wake-up and the sums, all in one step.
--   unless_mail  '1': unread mail forbids it
--   data         the answer as JSON, or ''
-- Returns {'ok', publish, kill} | {'mail'} | {'stale'} | {'cancelled'}
step('finish', function(id, gen, number, entry, state, text, reason, unless_mail, data)
  number = tonumber(number)
  local refused = refusal(id, gen, { [state] = true }, number, 1)
  if refused then return { refused } end
  local job, parent, unread = fields(id, 'job', 'parent', 'unread')
  if unless_mail == '1' and count(unread) > 0 then return { 'mail' } end
  append(id, number, entry)
  if data ~= '' then
    redis.call('HSET', agent_key(id), 'data', data)
    if parent == '' then redis.call('HSET', job_key(job), 'data', data) end
  end
  end_agent(id, state, text, reason, false)
  for i = #kill, 1, -1 do if kill[i] == id then table.remove(kill, i) end end
  return { 'ok', publish, kill }
end)
