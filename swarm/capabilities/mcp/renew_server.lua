-- Replace a server's offer, whose tools have changed.
--   server    the server's part of its tools' names
--   before    JSON: the offer that the new one follows
--   document  JSON, see pins.py
-- Returns {1}, or {0} if another offer is kept
step('renew_server', function(job, server, before, document)
  local key = job_key(job, 'servers')
  if redis.call('HGET', key, server) ~= before then return { 0 } end
  redis.call('HSET', key, server, document)
  return { 1 }
end)
