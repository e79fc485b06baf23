-- Take back what a lasting approval allows in a job: every rule that is written so.
-- Returns {'ok'} | {'none'}
step('withdraw_rule', function(job, rule)
  return { redis.call('LREM', job_key(job, 'rules'), 0, rule) > 0 and 'ok' or 'none' }
end)
