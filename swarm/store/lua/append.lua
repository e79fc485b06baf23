-- Append entries to a journal if the caller still owns the agent and the numbers are free.
--   number          of the first entry
--   counters        JSON: amounts to add to the agent's and the job's sums
--   settle          '1': return the reserved amounts
--   said            the agent's latest text, kept for an end from outside; '' for none
--   call            JSON: the end of the model call that these entries report; '' for none: governor_common.lua
--   reservation     JSON: a request for a slot for the next call; '' for none
--   next_call       JSON: what the model call that follows counts if its reply is lost; '' if none follows
--   digest, prefix  hash and JSON of the prefix that a `started` entry names; '' for none, or for a known text
-- Returns {'ok', unread messages, publish, a person's request for a summary as JSON or '', the answer of `ask_for_slot`} | {'document'}: repeat with the text | {'repeat'} | {'stale'} | {'cancelled'}
step('append', function(id, gen, number, activity, counters, settle, said, call, reservation, next_call, digest, prefix, entries)
  number = tonumber(number)
  local refused = agents.refusal(id, gen, { running = true }, number, #entries)
  if refused then return { refused } end
  local job, unread, wanted = fields(id, 'job', 'unread', 'wanted_summary')
  if digest ~= '' and not documents.refer(job, digest, prefix) then return { 'document' } end
  for i, entry in ipairs(entries) do agents.append(id, job, number + i - 1, entry) end
  local changed = budgets.spend(id, job, cjson.decode(counters))
  if settle == '1' then
    admission.give_back(id, job)
    budgets.serve(job)
  end
  if call ~= '' then governor.settle_call(id, cjson.decode(call)) end
  local slot = reservation ~= '' and governor.ask_for_slot(id, job, cjson.decode(reservation)) or {}
  redis.call('HSET', agent_key(id), 'activity', activity, 'active', NOW, 'next_call', next_call)
  if said ~= '' then redis.call('HSET', agent_key(id), 'said', said) end
  if changed then emit(job, 'progress', id, 'activity', activity) end
  return { 'ok', count(unread), publish, wanted or '', slot }
end, { list_after = 12 })
