-- Callbacks: a task's signature, published on another application's broker after the end of a job. Workers know brokers by name.
--
-- P:brokers           zset  names of known brokers by their last announcement; kept while a callback is due there
-- P:callbacks:BROKER  zset  ended jobs with an unpublished callback there, by due time
-- Fields of a job: `callback_broker`; `callback`, the signature and how to publish it, as JSON; `callback_tries`, the number of attempts,
-- set from the job's first end on, so a continued job has no second callback

callbacks.BROKER_SECONDS = 7 * 86400

function callbacks.key(broker) return P .. ':callbacks:' .. broker end

function callbacks.knows_broker(name)
  return tonumber(redis.call('ZSCORE', P .. ':brokers', name) or 0) > NOW - callbacks.BROKER_SECONDS
end

-- Runs in the step that ends the job, so an end never lacks its callback, even after a crash.
at_end(function(job, id)
  local root, broker = job_fields(job, 'root', 'callback_broker')
  if not broker or root ~= id then return end
  if redis.call('HSETNX', job_key(job), 'callback_tries', 0) == 1 then redis.call('ZADD', callbacks.key(broker), NOW, job) end
end)
