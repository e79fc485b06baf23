-- Close a question: a person's answer, or its expiry.
-- ARGV: prefix, question, state ('answered' | 'expired'), answer, reason, mode, by, '1' if its rule holds for the job from now on
-- The same words again, as after a broken connection, answer the same and change nothing.
-- Answers {'ok', publish} | {'closed', state} | {'unknown'}
local id = ARGV[2]
local question = redis.call('HMGET', question_key(id), 'state', 'job', 'expires', 'always')
if not question[1] then return { 'unknown' } end
if question[1] == 'open' and ARGV[3] == 'answered' and tonumber(question[3]) < NOW then
  close_question(id, 'expired', '', '', '', '')
  return { 'closed', 'expired', publish }
end
if not close_question(id, ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]) then
  local said = redis.call('HMGET', question_key(id), 'state', 'answer', 'reason', 'mode', 'by', 'lasting')
  for i = 1, 6 do
    if said[i] ~= ARGV[i + 2] then return { 'closed', question[1], publish } end
  end
  return { 'ok', publish }
end
redis.call('HSET', question_key(id), 'lasting', ARGV[8])
if ARGV[8] == '1' and question[4] ~= '' then redis.call('RPUSH', job_key(question[2]) .. ':rules', question[4]) end
return { 'ok', publish }
