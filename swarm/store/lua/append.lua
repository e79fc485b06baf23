-- Append entries to a journal if the caller still owns the agent and the numbers are free.
--   number          of the first entry
--   counters        JSON: amounts to add to the agent's and the job's sums; `aside`, those of other models than the agent's
--   settle          '1': return the reserved amounts
--   said            the agent's latest text, kept for an end from outside; '' for none
--   call            JSON: the end of the model call that these entries report; '' for none: governor_common.lua
--   reservation     JSON: a request for a slot for the next call; '' for none
--   next_call       JSON: the use of the next model call if its reply is lost; '' if none follows
--   reported        JSON: the calls whose side requests these entries report; '' for none
--   digest, prefix  hash and JSON of the prefix that a `started` entry names; '' for none, or for a known text
--   most            JSON: the MiB from which the agent's journal, and all of its job, count as full
-- Returns {'ok', unread messages, publish, a person's request for a summary as JSON or '', the answer of `ask_for_slot`, 'agent' | 'job' if that has no room, the model that a person wants as JSON if any} | {'document'}: repeat with the text | {'repeat'} | {'stale'} | {'cancelled'}
step('append', function(id, gen, number, activity, counters, settle, said, call, reservation, next_call, reported, digest, prefix, most, entries)
  number = tonumber(number)
  local refused = agents.refusal(id, gen, { running = true }, number, #entries)
  if refused then return { refused } end
  local job, unread, wanted, had, model, rehearsed, chosen =
    fields(id, 'job', 'unread', 'wanted_summary', 'journal_bytes', 'model', 'rehearsed', 'wanted_model')
  if digest ~= '' and not documents.refer(job, digest, prefix) then return { 'document' } end
  local told = { 'activity', activity, 'active', NOW, 'next_call', next_call }
  if said ~= '' then told[7], told[8] = 'said', said end
  local mine, all = agents.append_all(id, job, number, entries, count(had), unpack(told))
  if reported ~= '' then budgets.report_side_calls(id, cjson.decode(reported)) end
  local changed = budgets.spend(id, job, cjson.decode(counters), budgets.ledger_model(model, rehearsed))
  if settle == '1' then
    admission.give_back(id, job)
    budgets.serve(job)
  end
  if call ~= '' then governor.settle_call(id, cjson.decode(call)) end
  local slot = reservation ~= '' and governor.ask_for_slot(id, job, cjson.decode(reservation)) or {}
  if changed then emit(job, 'progress', id, 'activity', activity) end
  local own, whole = unpack(cjson.decode(most))
  local full = mine >= own * 2^20 and 'agent' or all >= whole * 2^20 and 'job' or nil
  if chosen then return { 'ok', count(unread), publish, wanted or '', slot, full or '', chosen } end
  return { 'ok', count(unread), publish, wanted or '', slot, full }
end, { list_after = 14 })
