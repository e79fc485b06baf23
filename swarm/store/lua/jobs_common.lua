-- The index of jobs, and the removal of jobs and maps whose records have expired.
--
-- P:jobs        zset  all jobs by creation time
-- P:jobs:STATE  zset  the jobs in each state, in the same order; those in `running` are open
-- P:expiring    zset  jobs and maps by the time at which their records expire; also of those with documents and no record yet
-- P:holders     set   jobs that may have objects outside Redis, besides those in the archive
-- P:orphans     zset  forgotten holders, by when they were forgotten, until their objects are deleted
--
-- The step that changes a job's state moves it, so a list reads only its own rows. Expired jobs stay until the next sweep.

local STATES = { 'running', 'completed', 'failed', 'cancelled', 'timed_out' }
local UNBORN_SECONDS = 86400

local function index(state) return P .. ':jobs' .. (state ~= '' and ':' .. state or '') end

-- Set the state of a job that has its creation time.
function jobs.set_state(job, state)
  local created = job_field(job, 'created')
  redis.call('HSET', job_key(job), 'state', state)
  redis.call('ZADD', index(''), created, job)
  for _, each in ipairs(STATES) do
    if each == state then redis.call('ZADD', index(each), created, job) else redis.call('ZREM', index(each), job) end
  end
end

-- How many seconds a job is kept that has ended in this state.
function jobs.retention(job, state)
  local own, seconds = job_fields(job, 'retention_' .. state, 'retention')
  return tonumber(own or seconds or '604800')
end

-- Whether the record of a job or map exists.
function jobs.is_there(owner) return redis.call('EXISTS', job_key(owner), P .. ':map:' .. owner) > 0 end

-- Have a job or map forgotten unless its record follows within a day.
function jobs.announce(owner)
  if not jobs.is_there(owner) then redis.call('ZADD', P .. ':expiring', NOW + UNBORN_SECONDS, owner) end
end

-- Note when the record of a job or map expires; '': never.
function jobs.expire(owner, at)
  if at == '' then redis.call('ZREM', P .. ':expiring', owner) else redis.call('ZADD', P .. ':expiring', at, owner) end
end

-- Remove a job or map without a record from all lists, with the documents that only it used.
function jobs.drop(owner)
  redis.call('ZREM', index(''), owner)
  for _, state in ipairs(STATES) do redis.call('ZREM', index(state), owner) end
  redis.call('ZREM', P .. ':maps', owner)
  redis.call('ZREM', P .. ':unfinished', owner)
  documents.release(owner)
  jobs.expire(owner, '')
  local held = redis.call('SREM', P .. ':holders', owner) == 1
  if archive.drop(owner) or held then redis.call('ZADD', P .. ':orphans', NOW, owner) end
end

-- Note, before its first object is written, that a job may have objects: they are deleted when it is forgotten.
function jobs.hold(owner)
  redis.call('SADD', P .. ':holders', owner)
  jobs.announce(owner)
end

-- Drop some jobs and maps whose records have expired.
function jobs.forget()
  for _, owner in ipairs(redis.call('ZRANGEBYSCORE', P .. ':expiring', '-inf', NOW - 1, 'LIMIT', 0, 100)) do
    if jobs.is_there(owner) and not archive.holds(owner) then
      jobs.expire(owner, NOW + 60)
    else
      jobs.drop(owner)
    end
  end
end

-- One part of the index, newest first: see the step list_jobs.
function jobs.list(state, before, since, words, most)
  local time, id = string.match(before, '^(.-):(.*)$')
  local skipped = 0
  if time then
    -- Jobs that one step has made have the same time; they are in the order of their ids.
    for _, same in ipairs(redis.call('ZRANGE', index(state), time, time, 'BYSCORE')) do
      if same >= id then skipped = skipped + 1 end
    end
  end
  local span = words == '' and most or 1000
  local looked = redis.call('ZREVRANGEBYSCORE', index(state), time or '+inf', since, 'WITHSCORES', 'LIMIT', skipped, span + 1)
  local ids, place = {}, 1
  while looked[place] and #ids < most and place < 2 * span do
    local fits = words == ''
    if not fits then
      local title, workspace = job_fields(looked[place], 'title', 'workspace')
      fits = string.find(string.lower(looked[place] .. '\n' .. (title or '') .. '\n' .. (workspace or '')), words, 1, true)
    end
    if fits then ids[#ids + 1] = looked[place] end
    place = place + 2
  end
  return { ids, looked[place] and looked[place - 1] .. ':' .. looked[place - 2] or '' }
end
