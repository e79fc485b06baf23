-- Put a running agent back on the queue at a turn boundary: its worker is stopping, or others need the process.
-- It costs no attempt.
--   last  '1' if it goes to the end of the line
-- Returns {'ok', publish} | {'repeat'} | {'stale'} | {'cancelled'}
step('hand_over', function(id, gen, why, last)
  local refused = agents.refusal(id, gen, { queued = true })
  if refused then return { refused } end
  local job = field(id, 'job')
  budgets.lose_calls(id, job)
  admission.leave(id, job)
  if last == '1' then redis.call('HSET', agent_key(id), 'yielded', '1') end
  admission.put_on_queue(id)
  emit(job, 'handed_over', id, 'why', why)
  return { 'ok', publish }
end, { when_full = true })
