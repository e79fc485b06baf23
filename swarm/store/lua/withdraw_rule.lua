-- Withdraw a lasting approval in a job: remove every equal rule.
-- Returns {'ok'} | {'none'}
step('withdraw_rule', function(job, rule)
  return { redis.call('LREM', job_key(job, 'rules'), 0, rule) > 0 and 'ok' or 'none' }
end, { when_full = true })
