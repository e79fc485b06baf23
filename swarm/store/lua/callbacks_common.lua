-- What follows the end of a job in another application: the signature of a task, published on a broker that workers know by name.
--
-- P:brokers          zset  names of the brokers that workers know, by when one said so last; kept while a sequel is due there
-- P:sequels:BROKER   zset  jobs that have ended and whose sequel is to be published there, by when: until that was done
-- Of a job: `sequel_broker`; `sequel`, the signature and what tells how it is published, as JSON; `sequel_tries`, how often that was
-- begun, there from its first end on: a job that goes on has no second sequel

callbacks.BROKER_SECONDS = 7 * 86400

function callbacks.key(broker) return P .. ':callbacks:' .. broker end

function callbacks.knows_broker(name)
  return tonumber(redis.call('ZSCORE', P .. ':brokers', name) or 0) > NOW - callbacks.BROKER_SECONDS
end

-- Written by the step that ends the job, so no end is without its sequel, whoever dies.
at_end(function(job, id)
  local root, broker = job_fields(job, 'root', 'callback_broker')
  if not broker or root ~= id then return end
  if redis.call('HSETNX', job_key(job), 'callback_tries', 0) == 1 then redis.call('ZADD', callbacks.key(broker), NOW, job) end
end)
