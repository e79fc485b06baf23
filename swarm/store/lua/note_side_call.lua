-- Note the use of a call's requests beside the conversation: it is charged if no entry reports it before the agent loses its process.
--   call  the id of the call, or the name of a run of hooks
--   use   JSON {counter: amount, model}: budgets_common.lua
-- Returns {'ok'} | {'stale'} | {'cancelled'}
step('note_side_call', function(id, gen, call, use)
  local refused = agents.refusal(id, gen, {})
  if refused then return { refused } end
  budgets.note_side_call(id, call, cjson.decode(use))
  return { 'ok' }
end)
