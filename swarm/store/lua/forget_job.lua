-- Forget some of an ended job; its caller repeats the step until it answers 'done', and the sweep continues if the caller dies.
-- First its root's record goes, so that nothing continues the job. Then all keys expire at once, by the same steps as at an end.
-- Returns {'done'} | {'more'} | {'open'}
step('forget_job', function(job)
  local state, root, expires, archived = job_fields(job, 'state', 'root', 'expires', 'archived')
  if state == 'running' then return { 'open' } end
  if state then
    if not archived and (not expires or tonumber(expires) > NOW) then
      redis.call('DEL', agent_key(root))
      endings.keep(job, NOW)
    end
    if endings.settle(job) then return { 'more' } end
  end
  -- A map of this id has a record of its own.
  if archived or not jobs.is_there(job) then jobs.drop(job) end
  return { 'done' }
end, { when_full = true })
