-- Note, before it is written, that a job may have objects; 'JOB/DIGEST', if an output is to refer to this one.
step('hold_objects', function(job, address)
  jobs.hold(job)
  if address ~= '' then outputs.announce(address) end
end)

-- Objects to delete: {some forgotten jobs that may still have objects, the first forgotten first; 'JOB/DIGEST' of some single ones}.
step('orphans', function()
  return { redis.call('ZRANGE', P .. ':orphans', 0, 99), redis.call('ZRANGEBYSCORE', P .. ':loose', '-inf', NOW, 'LIMIT', 0, 100) }
end, { reads = true })

-- Note that a forgotten job's objects are deleted, or a single one.
step('objects_deleted', function(name) redis.call('ZREM', P .. (name:find('/') and ':loose' or ':orphans'), name) end, { when_full = true })
