-- Positions up to which journals were counted and sent, so that each entry is counted once despite crashes and other readers.
--
-- P:telemetry          hash    the figures since they were first counted: FIGURE|LABEL|… -> a whole number
-- P:telemetry:ROLE     string  the one exporter with that role: `telling` sends spans, `counting` only counts; expires
-- P:telemetry:read     string  when all journals were last read to their ends
-- P:job:ID:telemetry   hash    counted:AGENT, told:AGENT -> the last entry of its journal; counted, told -> the job's number when there
--                              was nothing left

-- Add the counts of an agent's entries after `from`, up to `to`, to the figures, unless another reader has.
--   changes  JSON: key -> whole number
-- Returns 1 if all up to `to` are counted now; 0 if another reader has counted only some of them.
step('count_entries', function(job, id, from, to, changes)
  local key, mark = job_key(job, 'telemetry'), 'counted:' .. id
  local now = count(redis.call('HGET', key, mark))
  if now >= tonumber(to) then return 1 end
  if not job_field(job, 'state') or now ~= tonumber(from) then return 0 end
  redis.call('HSET', key, mark, to)
  keep_with_job(job, key)
  for name, by in pairs(cjson.decode(changes)) do add(P .. ':telemetry', name, by) end
  return 1
end)

-- Set marks of progress.
--   marks  name, value, name, value…
step('note_told', function(job, marks)
  if not job_field(job, 'state') then return end
  redis.call('HSET', job_key(job, 'telemetry'), unpack(marks))
  keep_with_job(job, job_key(job, 'telemetry'))
end, { list_after = 1 })

-- Give the reader's role back.
step('leave_reader', function(role, who)
  local key = P .. ':telemetry:' .. role
  if redis.call('GET', key) == who then redis.call('DEL', key) end
end)

-- Take or keep the reader's role for so many milliseconds. Returns 1 if the caller has it.
step('be_reader', function(role, who, milliseconds)
  local key = P .. ':telemetry:' .. role
  local now = redis.call('GET', key)
  if now and now ~= who then return 0 end
  redis.call('SET', key, who, 'PX', milliseconds)
  return 1
end)
