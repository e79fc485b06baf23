-- The archive: ended jobs outside Redis. One object of the object store holds all keys of such a job; a row for lists stays here.
--
-- P:archivable  zset  ended jobs by when they are due for the archive
-- P:archived    hash  agent or question -> its archived job; archived job -> its agents besides the root, and its questions, if any,
--                     separated by spaces
-- P:archiving   string  why jobs that are due cannot be archived, until one is
-- Fields of a job: `archive`, the seconds from its end until it is due; `archived`, the digest of its object;
-- `archived_bytes`, the object's size. A job with `archived` has no keys but its record, with the fields of a row, which does not expire: the sweep removes it.
--
-- The object is written before the step that sets `archived`, and that step refuses a job that has changed meanwhile. Its keys are
-- removed by the steps that else set their expiry. Reading a job recalls it: its keys come back, and then it is an ended job like any
-- other, due for the archive again soon.

local ROW = { 'state', 'root', 'created', 'ended', 'title', 'workspace', 'files', 'rehearsed', 'stopped_at', 'agents', 'unread', 'order', 'map', 'object_bytes' }
-- Redis stores a hash compactly if no value is longer.
local LONGEST = 64

function archive.holds(job) return job_field(job, 'archived') end

-- Have a job archived some time after its end, if it wants that.
function archive.plan(job)
  local after = job_field(job, 'archive')
  if after then archive.plan_at(job, NOW + tonumber(after)) end
end

function archive.plan_at(job, at) redis.call('ZADD', P .. ':archivable', at, job) end

-- A job goes on: nothing is due.
function archive.cancel_plan(job) redis.call('ZREM', P .. ':archivable', job) end

-- Note where some agents or questions of a job are, in the step that removes their records.
function archive.note(job, members)
  local root, others = job_field(job, 'root'), { redis.call('HGET', P .. ':archived', job) or nil }
  for _, id in ipairs(members) do
    if redis.call('HSET', P .. ':archived', id, job) == 1 and id ~= root then others[#others + 1] = id end
  end
  if #others > 0 then redis.call('HSET', P .. ':archived', job, table.concat(others, ' ')) end
end

-- Remove the notes of a job's agents and questions.
function archive.forget_notes(job)
  redis.call('HDEL', P .. ':archived', job_field(job, 'root'))
  for id in string.gmatch(redis.call('HGET', P .. ':archived', job) or '', '%S+') do redis.call('HDEL', P .. ':archived', id) end
  redis.call('HDEL', P .. ':archived', job)
end

-- Remove all that is here of a job that is in the archive. Returns whether there was any.
function archive.drop(job)
  archive.cancel_plan(job)
  if not archive.holds(job) then return false end
  archive.forget_notes(job)
  redis.call('DEL', job_key(job), job_key(job, 'webhook'))
  return true
end

local function cut(text)
  if #text <= LONGEST then return text end
  -- Not within a character.
  return string.gsub(string.sub(text, 1, LONGEST - 3), '[\192-\255]?[\128-\191]*$', '') .. '…'
end

-- Reduce a job's record to its row.
function archive.make_row(job, digest, bytes)
  local row = { 'archived', digest, 'archived_bytes', bytes }
  local function keep(name)
    local value = job_field(job, name)
    if value and value ~= '' and value ~= '0' then row[#row + 1] = name; row[#row + 1] = cut(value) end
  end
  for _, name in ipairs(ROW) do keep(name) end
  for _, name in ipairs(COUNTERS) do keep(name) end
  redis.call('DEL', job_key(job))
  redis.call('HSET', job_key(job), unpack(row))
end
