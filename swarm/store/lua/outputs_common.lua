-- Kept outputs: texts too long for the conversation of the agent that made them.
--
-- P:outputs:ID   hash  key -> the text
-- P:kept:ID      list  the keys, oldest first
-- P:freeable     zset  ended agents with kept outputs, by their end
-- Fields of an agent and of a job: `kept`, the bytes of the outputs.

function outputs.key(id) return P .. ':outputs:' .. id end

function outputs.order_key(id) return P .. ':kept:' .. id end

-- Count bytes of an agent's outputs, also negative ones.
function outputs.count(id, job, bytes)
  add(agent_key(id), 'kept', bytes)
  add(job_key(job), 'kept', bytes)
end

-- Keep an output within the bounds of its agent and its job: the agent's oldest ones make room.
-- Returns {'ok', dropped keys} | {'over', 'agent' | 'job', bound}: it was not kept, and nothing was dropped
function outputs.keep(id, job, key, text, most, most_of_job)
  local before = redis.call('HSTRLEN', outputs.key(id), key)
  local mine, all = count(field(id, 'kept')) - before, count(job_field(job, 'kept')) - before
  if #text > most then return { 'over', 'agent', most } end
  if all - mine + #text > most_of_job then return { 'over', 'job', most_of_job } end
  local dropped, freed = {}, 0
  if before > 0 then redis.call('LREM', outputs.order_key(id), 1, key) end
  while mine - freed + #text > most or all - freed + #text > most_of_job do
    local oldest = redis.call('LPOP', outputs.order_key(id))
    if not oldest then break end
    freed = freed + redis.call('HSTRLEN', outputs.key(id), oldest)
    redis.call('HDEL', outputs.key(id), oldest)
    dropped[#dropped + 1] = oldest
  end
  redis.call('HSET', outputs.key(id), key, text)
  redis.call('RPUSH', outputs.order_key(id), key)
  outputs.count(id, job, #text - before - freed)
  return { 'ok', dropped }
end

-- Free the outputs of the agents that ended first.
function outputs.free(most)
  for _, id in ipairs(redis.call('ZRANGE', P .. ':freeable', 0, most - 1)) do
    redis.call('ZREM', P .. ':freeable', id)
    local job, kept = fields(id, 'job', 'kept')
    if job and has_ended(id) then
      redis.call('UNLINK', outputs.key(id), outputs.order_key(id))
      outputs.count(id, job, 0 - count(kept))
    end
  end
end

-- Remove agents from the list whose records have expired: they are its first ones.
function outputs.forget(most)
  for _, id in ipairs(redis.call('ZRANGE', P .. ':freeable', 0, most - 1)) do
    if redis.call('EXISTS', agent_key(id)) == 0 then redis.call('ZREM', P .. ':freeable', id) end
  end
end

at_end(function(_, id)
  if field(id, 'kept') then redis.call('ZADD', P .. ':freeable', NOW, id) end
end)
