-- Texts shared by many jobs (their definitions, their request prefixes), each kept once.
--
-- P:document:DIGEST       string  the text whose sha256 this is
-- P:document:DIGEST:jobs  set     the jobs and maps that refer to it; expired ones are removed at the next check
-- P:documents             zset    documents by the time of their next check
--
-- A job refers to a document in the step that first needs it, so documents of existing jobs exist. A step that refers to a missing one says
-- so, and its caller repeats it with the text.

local LOOKED_AFTER = 3600

-- A map refers to documents like the jobs that it has yet to start.
local function is_there(owner) return redis.call('EXISTS', job_key(owner), P .. ':map:' .. owner) > 0 end

-- Let a job refer to a document; `text` may be '' if the document exists. Returns whether it exists.
function documents.refer(job, digest, text)
  local key = P .. ':document:' .. digest
  if text ~= '' then
    redis.call('SET', key, text, 'NX')
  elseif redis.call('EXISTS', key) == 0 then
    return false
  end
  redis.call('SADD', key .. ':jobs', job)
  redis.call('ZADD', P .. ':documents', 'NX', NOW + LOOKED_AFTER, digest)
  return true
end

-- Check due documents and remove those without a job. One existing job is enough to keep a document, so not all of its jobs are checked.
-- The next call continues an unfinished check.
function documents.forget()
  for _, digest in ipairs(redis.call('ZRANGEBYSCORE', P .. ':documents', '-inf', NOW, 'LIMIT', 0, 5)) do
    local key = P .. ':document:' .. digest
    local job = redis.call('SRANDMEMBER', key .. ':jobs')
    while job and left_at_once > 0 and not is_there(job) do
      left_at_once = left_at_once - 1
      redis.call('SREM', key .. ':jobs', job)
      job = redis.call('SRANDMEMBER', key .. ':jobs')
    end
    if not job then
      redis.call('DEL', key)
      redis.call('ZREM', P .. ':documents', digest)
    elseif is_there(job) then
      redis.call('ZADD', P .. ':documents', NOW + LOOKED_AFTER, digest)
    end
  end
end
