-- Append the entry by which an agent asks another model from now on. A slot or a place in line for the last one is given up.
--   model         the new model's full id
--   needs, wants  a worker that can ask it must meet these; as in `need`
--   told          JSON {was, reason, why}, for the event
-- Returns {'ok', unread messages, publish} | {'repeat'} | {'stale'} | {'cancelled'}
step('switch_model', function(id, gen, number, entry, model, needs, wants, told)
  number = tonumber(number)
  local refused = agents.refusal(id, gen, { running = true }, number, 1)
  if refused then return { refused } end
  local job, unread = fields(id, 'job', 'unread')
  agents.append(id, job, number, entry)
  redis.call('HSET', agent_key(id), 'model', model, 'needs', needs, 'wants', wants, 'active', NOW, 'next_call', '')
  governor.leave(id, job)
  told = cjson.decode(told)
  emit(job, 'switched', id, 'model', model, 'was', told.was, 'reason', told.reason, 'why', told.why)
  return { 'ok', count(unread), publish }
end)
