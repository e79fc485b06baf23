-- Close a question: a person's answer, or its expiry.
--   state    'answered' | 'expired'
--   lasting  '1' if its rule applies to the job from now on
-- A repeat with equal values, as after a broken connection, gets the same answer and changes nothing.
-- Returns {'ok', publish} | {'closed', state} | {'unknown'} | {'event', key}: only that event answers it
step('close_question', function(id, state, answer, reason, mode, by, lasting)
  local before, job, expires, rule, to = read(questions.key(id), 'state', 'job', 'expires', 'always', 'to')
  if not before then return { 'unknown' } end
  if state == 'answered' and external_events.event_of(to) then return { 'event', external_events.event_of(to) } end
  if before == 'open' and state == 'answered' and tonumber(expires) < NOW then
    questions.close(id, 'expired', '', '', '', '')
    return { 'closed', 'expired' }
  end
  if not questions.close(id, state, answer, reason, mode, by) then
    local said = redis.call('HMGET', questions.key(id), 'state', 'answer', 'reason', 'mode', 'by', 'lasting')
    for i, word in ipairs({ state, answer, reason, mode, by, lasting }) do
      if said[i] ~= word then return { 'closed', before } end
    end
    return { 'ok', publish }
  end
  redis.call('HSET', questions.key(id), 'lasting', lasting)
  if lasting == '1' and rule ~= '' then redis.call('RPUSH', job_key(job, 'rules'), rule) end
  return { 'ok', publish }
end, { when_full = true })
