-- Keep what an MCP server offers with a job, so that all of its agents are given the same, on whatever host.
--   server    the part that its tools' names have of it
--   document  JSON, see pins.py
-- Returns {document}: what is kept; of two who say it at once the first
step('pin_server', function(job, server, document)
  local key = job_key(job, 'servers')
  if redis.call('EXISTS', job_key(job)) == 0 then return { document } end
  if redis.call('HSETNX', key, server, document) == 1 then keep_with_job(job, key) end
  return { redis.call('HGET', key, server) }
end)
