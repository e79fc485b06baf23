-- Cast a vote, once for each cause, and count.
-- Returns {'ok', publish, JSON {choice = votes}, kill} | {'refused', why, JSON}
step('vote', function(job, id, cause, choice)
  local early = causes.answered(job, id, cause)
  if early then return early end
  local votes = job_key(job, 'votes')
  keep_with_job(job, votes)
  redis.call('HINCRBY', votes, choice, 1)
  local tally, all = {}, redis.call('HGETALL', votes)
  for i = 1, #all, 2 do tally[all[i]] = tonumber(all[i + 1]) end
  return causes.answer(job, cause, tally)
end)
