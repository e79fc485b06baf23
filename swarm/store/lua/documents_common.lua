-- Texts shared by many jobs (their definitions, their request prefixes), each kept once.
--
-- P:document:DIGEST     string  the text whose sha256 this is
-- P:documents           zset    each document by the number of jobs and maps that refer to it
-- P:references          hash    job or map -> the digests of its documents, separated by spaces, until it is forgotten
--
-- A job refers to a document in the step that first needs it, so documents of existing jobs exist. A step that refers to a missing one says
-- so, and its caller repeats it with the text. The step that forgets the last job of a document removes it.

-- Let a job or map refer to a document; `text` may be '' if the document exists. Returns whether it exists.
function documents.refer(owner, digest, text)
  local key = P .. ':document:' .. digest
  if text ~= '' then
    redis.call('SET', key, text, 'NX')
  elseif redis.call('EXISTS', key) == 0 then
    return false
  end
  local known = redis.call('HGET', P .. ':references', owner) or ''
  if not string.find(known, digest, 1, true) then
    redis.call('HSET', P .. ':references', owner, known .. ' ' .. digest)
    redis.call('ZINCRBY', P .. ':documents', 1, digest)
    jobs.announce(owner)
  end
  return true
end

-- End the references of a job or map that no longer exists.
function documents.release(owner)
  for digest in string.gmatch(redis.call('HGET', P .. ':references', owner) or '', '%S+') do
    if tonumber(redis.call('ZINCRBY', P .. ':documents', -1, digest)) <= 0 then
      redis.call('DEL', P .. ':document:' .. digest)
      redis.call('ZREM', P .. ':documents', digest)
    end
  end
  redis.call('HDEL', P .. ':references', owner)
end
