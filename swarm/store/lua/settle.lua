-- Go on with what the end of an agent, or of a job, has left to do.
-- Returns {whether anything is still left, publish, kill}
step('settle', function(job)
  return { endings.settle(job) and 1 or 0, publish, kill }
end)

-- Some of the jobs for which something is left, those that have waited longest first; and forget jobs whose records have expired.
-- Returns the jobs. Also forgets documents that no job refers to any more.
step('unsettled', function()
  for _, job in ipairs(redis.call('ZRANGEBYSCORE', P .. ':expiring', '-inf', NOW - 1, 'LIMIT', 0, 100)) do
    if redis.call('EXISTS', job_key(job)) == 0 then
      redis.call('ZREM', P .. ':jobs', job)
      redis.call('ZREM', P .. ':unfinished', job)
      redis.call('ZREM', P .. ':expiring', job)
    else
      redis.call('ZADD', P .. ':expiring', NOW + 60, job)
    end
  end
  documents.forget()
  return redis.call('ZRANGE', P .. ':unfinished', 0, 9)
end)
