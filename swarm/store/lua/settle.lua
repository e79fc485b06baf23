-- Continue the unfinished endings of a job.
-- Returns {whether any are left, publish, kill}
step('settle', function(job)
  return { endings.settle(job) and 1 or 0, publish, kill }
end)

-- Some jobs with unfinished endings, longest waiting first. Removes jobs with expired records from the lists, and documents without
-- a job. Returns the jobs.
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
