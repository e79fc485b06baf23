-- Note, before it is written, that a job may have objects.
step('hold_objects', function(job) jobs.hold(job) end)

-- Some forgotten jobs that may still have objects, the first forgotten first.
step('orphans', function() return redis.call('ZRANGE', P .. ':orphans', 0, 99) end, { reads = true })

-- Note that a forgotten job's objects are deleted.
step('objects_deleted', function(job) redis.call('ZREM', P .. ':orphans', job) end, { when_full = true })
