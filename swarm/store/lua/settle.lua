-- Continue the unfinished endings of a job.
-- Returns {whether any are left, publish, kill}
step('settle', function(job)
  return { endings.settle(job) and 1 or 0, publish, kill }
end, { when_full = true })

-- Forget expired jobs and maps. Returns some jobs with unfinished endings, longest waiting first.
step('unsettled', function()
  jobs.forget()
  return redis.call('ZRANGE', P .. ':unfinished', 0, 9)
end, { when_full = true })
