-- The wake-up data of these agents.
-- Returns one {state, job, parent, depth, generation, definition, label, needs, the job's max depth, its files} for each;
-- unknown values are nil
step('wakeup', function(ids)
  local found = {}
  for i, id in ipairs(ids) do
    local record = redis.call('HMGET', agent_key(id), 'state', 'job', 'parent', 'depth', 'gen', 'definition', 'label', 'needs')
    local job = record[2]
    record[9] = job and job_field(job, 'max_depth')
    record[10] = job and job_field(job, 'files')
    found[i] = record
  end
  return found
end, { list_after = 0, reads = true })
