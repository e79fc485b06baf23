-- Measure the bytes of some jobs, at a cost that does not grow with them: of records of agents and of pages only some are measured.
-- Returns for each existing job {id, title, state, journals, mail, outputs in Redis, objects, board and pages, all else}
local LOOKED_AT = 5

local function measure(key) return redis.call('MEMORY', 'USAGE', key) or 0 end

-- The size of `all` keys by that of some.
local function estimate(all, some)
  local bytes = 0
  for _, key in ipairs(some) do bytes = bytes + measure(key) end
  return #some > 0 and math.floor(bytes * all / #some) or 0
end

local function measure_job(job)
  local title, state, journals, mail, kept, objects, archived = job_fields(job, 'title', 'state', 'journal_bytes', 'mail_bytes',
    'output_bytes', 'object_bytes', 'archived_bytes')
  if not state then return nil end
  local pages, members = job_key(job, 'keys'), redis.call('ZRANGE', job_key(job, 'agents'), 0, LOOKED_AT - 1)
  local shared = estimate(redis.call('SCARD', pages), redis.call('SRANDMEMBER', pages, LOOKED_AT))
  local rest = measure(job_key(job)) + measure(P .. ':events:' .. job)
  for _, part in ipairs(parts) do
    local bytes = measure(job_key(job, part))
    if part == 'pad' or part:find('^board') then shared = shared + bytes else rest = rest + bytes end
  end
  for i, id in ipairs(members) do members[i] = agent_key(id) end
  rest = rest + estimate(redis.call('ZCARD', job_key(job, 'agents')), members)
  return { job, title or '', state, count(journals), count(mail), archived and 0 or count(kept) - count(objects), count(objects) + count(archived), shared, rest }
end

step('measure_jobs', function(ids)
  local found = {}
  for _, job in ipairs(ids) do found[#found + 1] = measure_job(job) end
  return found
end, { reads = true, list_after = 0 })
