-- Texts that many jobs have in common (the definitions that travel with them, what their requests begin with), each kept once.
--
-- P:document:DIGEST       string  the text whose sha256 this is
-- P:document:DIGEST:jobs  set     the jobs and maps that refer to it; those whose records have expired are found out when it is looked at
-- P:documents             zset    documents by when they are looked at next
--
-- A job refers to a document in the step that first needs it, so one that a job with a record refers to is there. Whoever refers to
-- one that is not there is told so, and says it again with the text.

local LOOKED_AFTER = 3600

-- A map refers to documents as the jobs do that it is still to begin.
local function is_there(owner) return redis.call('EXISTS', job_key(owner), P .. ':map:' .. owner) > 0 end

-- Have a job refer to a document; `text` may be '' where it is there already. Returns whether it is.
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

-- Remove the documents whose time to be looked at has come and that no job refers to any more. One such job is reason enough to keep
-- one, so not all of its jobs are looked at; what is not done this time is done the next.
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
