-- Move ended jobs to the archive, and back.

local UNFINISHED_SECONDS = 3600

-- Take some jobs that are due for the archive; each is due again after `lease` seconds.
step('take_archivable', function(most, lease)
  local found = {}
  for _, job in ipairs(redis.call('ZRANGEBYSCORE', P .. ':archivable', '-inf', NOW, 'LIMIT', 0, tonumber(most))) do
    local state, archived = job_fields(job, 'state', 'archived')
    if state and state ~= 'running' and not archived then
      archive.plan_at(job, NOW + tonumber(lease))
      found[#found + 1] = job
    else
      redis.call('ZREM', P .. ':archivable', job)
    end
  end
  return found
end, { when_full = true })

-- Some of the keys of a job besides its record: with `first` 0 its own, and those of its agents from number `first` on.
-- Returns {keys, the number of the next agent, or -1}
step('list_keys', function(job, first, most)
  local found = {}
  local function add_all(keys) for _, key in ipairs(keys) do found[#found + 1] = key end end
  first = tonumber(first)
  if first == 0 then
    add_all(endings.job_keys(job))
    add_all(redis.call('SMEMBERS', job_key(job, 'keys')))
  end
  local members = redis.call('ZRANGE', job_key(job, 'agents'), first, first + most - 1)
  for _, id in ipairs(members) do add_all(endings.agent_keys(id)) end
  return { found, #members == tonumber(most) and first + #members or -1 }
end, { reads = true })

-- Whether a job's record is the one that was written to the archive.
local function is_unchanged(job, record)
  local found, given = redis.call('HGETALL', job_key(job)), cjson.decode(record)
  for i = 1, #found, 2 do
    if given[found[i]] ~= found[i + 1] then return false end
    given[found[i]] = nil
  end
  return next(given) == nil
end

-- Remove a job that has been written to the archive from Redis, except its row; its caller repeats the step until it answers 'ok', and the sweep continues if
-- the caller dies.
--   digest, bytes  of its object: its hash and its size
--   seq, record  the job's last number and its record, JSON, as that object has them
-- Returns {'ok'} | {'more'} | {'unknown'} | {'open'}: it has not ended, or something of its end is left to do | {'changed'}
step('archive_job', function(job, digest, bytes, seq, record)
  local state, archived, expires, broker = job_fields(job, 'state', 'archived', 'expires', 'callback_broker')
  if not state then return { 'unknown' } end
  if not archived then
    if state == 'running' or redis.call('ZSCORE', P .. ':unfinished', job) then return { 'open' } end
    if broker and redis.call('ZSCORE', callbacks.key(broker), job) then return { 'open' } end
    if redis.call('GET', job_key(job, 'seq')) ~= seq or not is_unchanged(job, record) then return { 'changed' } end
    archive.cancel_plan(job)
    archive.make_row(job, digest, bytes)
    documents.release(job)
    redis.call('SREM', P .. ':holders', job)
    endings.keep(job, expires)
    redis.call('DEL', P .. ':archiving')
  end
  return { endings.settle(job) and 'more' or 'ok' }
end, { when_full = true })

-- Whether an archived job can be recalled from this object.
local function why_not(job, digest)
  if archive.holds(job) ~= digest then return 'recalled' end
  if tonumber(redis.call('ZSCORE', P .. ':expiring', job) or '0') <= NOW then return 'gone' end
end

local ADD = {
  document = function(_, item, job) documents.refer(job, item[1], item[2]) end,
  hash = function(key, item) redis.call('HSET', key, item[1], item[2]) end,
  set = function(key, item) redis.call('SADD', key, item[1]) end,
  zset = function(key, item) redis.call('ZADD', key, item[1], item[2]) end,
  string = function(key, item) redis.call('SET', key, item[1]) end,
  list = function(key, item) redis.call('RPUSH', key, item[1]) end,
  stream = function(key, item)
    local told = redis.pcall('XADD', key, unpack(item))
    -- An entry that an earlier attempt added.
    if type(told) == 'table' and told.err and not string.find(told.err, 'equal or smaller', 1, true) then error(told.err) end
  end,
}

-- Bring a part of an archived job back; repeating it changes nothing. The parts of a job that does not come back whole expire.
--   key, kind  a key and its type; or '', 'document'
--   at         the number of items of this key before these
--   items      JSON, a list each: {field, value}, {member}, {score, member}, {value}, {id, field, value, …} or {digest, text}
-- Returns {'ok'} | {'recalled'}: it is no longer archived | {'gone'}: it has expired | {'full', used, most}: Redis is near its limit, in bytes
step('recall_part', function(job, digest, key, kind, at, items)
  local refused = why_not(job, digest)
  if refused then return { refused } end
  local lack = room.lack()
  if lack then return { 'full', unpack(lack) } end
  -- An earlier attempt, or another client, may have added these items of a list.
  local are_there = kind == 'list' and redis.call('LLEN', key) > tonumber(at)
  for _, item in ipairs(are_there and {} or cjson.decode(items)) do ADD[kind](key, item, job) end
  if key ~= '' then redis.call('EXPIRE', key, UNFINISHED_SECONDS) end
  return { 'ok' }
end)

-- Complete the return of a job whose parts are all there: its record, as it was. Its caller repeats the step until it answers 'ok'.
--   record  JSON
--   again   seconds until it is due for the archive again
-- Returns {'ok'} | {'more'} | {'recalled'} | {'gone'}
step('recall_job', function(job, digest, record, again)
  local refused = why_not(job, digest)
  if not refused then
    archive.forget_notes(job)
    redis.call('DEL', job_key(job))
    for name, value in pairs(cjson.decode(record)) do redis.call('HSET', job_key(job), name, value) end
    jobs.hold(job)
    archive.plan_at(job, NOW + tonumber(again))
    endings.keep(job, job_field(job, 'expires'))
  elseif refused == 'gone' then
    return { 'gone' }
  end
  if endings.settle(job) then return { 'more' } end
  return { refused or 'ok' }
end)

-- Note why jobs that are due cannot be archived; workers try again long before the note expires.
step('note_archiving', function(why) redis.call('SET', P .. ':archiving', why, 'EX', 3600) end, { when_full = true })
