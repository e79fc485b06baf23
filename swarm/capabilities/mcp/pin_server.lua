-- Keep a server's offer with the job, so that all of its agents get the same tools on every host.
--   server    the server's part of its tools' names
--   document  JSON, see pins.py
-- Returns {document}: the kept offer; the first of two concurrent ones
step('pin_server', function(job, server, document)
  local key = job_key(job, 'servers')
  if redis.call('EXISTS', job_key(job)) == 0 then return { document } end
  if redis.call('HSETNX', key, server, document) == 1 then keep_with_job(job, key) end
  return { redis.call('HGET', key, server) }
end)
