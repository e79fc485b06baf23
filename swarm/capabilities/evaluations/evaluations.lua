-- Evaluations, and scores of jobs.
--
-- P:evaluations    zset  all evaluations by creation time
-- P:evaluation:ID  hash  document (JSON: its cases and variants), created; it expires after all of its runs that are scored
-- Of a job: `evaluation`, the id of the one that it is a run of; `scores`, a JSON object: name -> {passed, points, note, by, at}.

-- Make an evaluation, or keep an existing one for longer. Returns its document and its creation time.
step('keep_evaluation', function(id, document, seconds)
  local key = P .. ':evaluation:' .. id
  if redis.call('HSETNX', key, 'document', document) == 1 then
    redis.call('HSET', key, 'created', NOW)
    redis.call('ZADD', P .. ':evaluations', NOW, id)
  end
  redis.call('EXPIRE', key, math.ceil(tonumber(seconds)))
  redis.call('ZREMRANGEBYSCORE', P .. ':evaluations', '-inf', NOW - 366 * 86400)
  return redis.call('HMGET', key, 'document', 'created')
end)

-- Note that jobs are runs of an evaluation.
step('note_runs', function(id, runs)
  for _, job in ipairs(runs) do
    if redis.call('EXISTS', job_key(job)) == 1 then redis.call('HSET', job_key(job), 'evaluation', id) end
  end
  return 'ok'
end, { list_after = 1 })

-- Have the evaluation of a run outlive it.
local function keep_evaluation_of(job)
  local id, state = job_fields(job, 'evaluation', 'state')
  if not id or id == '' then return end
  local key, seconds = P .. ':evaluation:' .. id, jobs.retention(job, state)
  local left = redis.call('TTL', key)
  if left >= 0 and left < seconds then redis.call('EXPIRE', key, math.ceil(seconds)) end
end

-- Score a job: set the score of that name. Returns 1, or 0 if there is no job.
--   score  JSON {passed, points, note, by}; '' removes it
step('score_job', function(job, name, score)
  if redis.call('EXISTS', job_key(job)) == 0 then return 0 end
  local scores = cjson.decode(job_field(job, 'scores') or '{}')
  scores[name] = nil
  if score ~= '' then
    scores[name] = cjson.decode(score)
    scores[name].at = tonumber(NOW)
  end
  redis.call('HSET', job_key(job), 'scores', cjson.encode(scores))
  keep_evaluation_of(job)
  return 1
end, { when_full = true })
