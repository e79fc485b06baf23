-- Steps of an agent whose work another program does while it runs.

-- Ask a question about a call without giving the process back; a repeat asks nothing. `ask` is JSON: questions_common.lua
-- Returns {'ok', publish} | {'stale'} | {'cancelled'}
step('ask_at_work', function(id, gen, question, ask)
  local refused = agents.refusal(id, gen, {})
  if refused then return { refused } end
  if not questions.state(question) then
    -- The end of the agent closes it.
    redis.call('HSET', agent_key(id), 'wait_question', question)
    questions.ask(question, id, field(id, 'job'), cjson.decode(ask))
  end
  return { 'ok', publish }
end)

-- Note the use of a request of that program, until an entry reports it, and the end of the call that held the agent's slot.
--   request  its name
--   use      JSON {counter: amount, model}: budgets_common.lua
--   ending   JSON: the end of a model call, governor_common.lua; '' for none
-- Returns {'ok', publish} | {'stale'} | {'cancelled'}
step('note_request', function(id, gen, request, use, ending)
  local refused = agents.refusal(id, gen, {})
  if refused then return { refused } end
  budgets.note_side_call(id, request, cjson.decode(use))
  if ending ~= '' then governor.settle_call(id, cjson.decode(ending)) end
  return { 'ok', publish }
end)
