-- Kept outputs: texts too long for the conversation of the agent that made them.
--
-- P:outputs:ID   hash  key -> the text
-- P:bodies:ID    hash  key -> 'BYTES JOB/DIGEST' of a large text, which is an object
-- P:kept:ID      list  the keys, oldest first
-- P:freeable     zset  ended agents with kept outputs, by their end
-- P:loose        zset  'JOB/DIGEST' of objects to which no output refers, by when they may be deleted
-- Fields: of an agent and of a job `output_bytes`, the size of the outputs; of a job `object_bytes`, the part of it that is objects.
--
-- No two outputs refer to the same object: it is loose before it is written, until an output refers to it, and again after that.

local UNUSED_SECONDS = 3600

function outputs.keys(id) return { P .. ':outputs:' .. id, P .. ':bodies:' .. id, P .. ':kept:' .. id } end

-- Note, before it is written, that an object may be deleted unless an output refers to it within an hour.
function outputs.announce(address) redis.call('ZADD', P .. ':loose', NOW + UNUSED_SECONDS, address) end

-- Count bytes of an agent's outputs, also negative ones.
local function add_bytes(id, job, bytes)
  add(agent_key(id), 'output_bytes', bytes)
  add(job_key(job), 'output_bytes', bytes)
end

-- The size and the address of the output with a key; 0 if there is none.
local function find(id, key)
  local texts, bodies = unpack(outputs.keys(id))
  local body = redis.call('HGET', bodies, key)
  if not body then return redis.call('HSTRLEN', texts, key) end
  local bytes, address = body:match('^(%d+) (.*)$')
  return tonumber(bytes), address
end

-- Drop the output with a key, if there is one; adds its object to a list.
local function drop(id, job, key, loose)
  local texts, bodies, order = unpack(outputs.keys(id))
  local bytes, address = find(id, key)
  if address then
    redis.call('ZADD', P .. ':loose', NOW, address)
    subtract(job_key(job), 'object_bytes', bytes)
    loose[#loose + 1] = address
  end
  redis.call('HDEL', texts, key)
  redis.call('HDEL', bodies, key)
  redis.call('LREM', order, 1, key)
  return bytes
end

-- Refer to an output's text, or to its object if it has an address.
local function put(id, key, text, bytes, address)
  local texts, bodies, order = unpack(outputs.keys(id))
  if address ~= '' then
    redis.call('HSET', bodies, key, string.format('%.0f %s', bytes, address))
    redis.call('ZREM', P .. ':loose', address)
  else
    redis.call('HSET', texts, key, text)
  end
  redis.call('RPUSH', order, key)
end

-- Refer to an output of an imported agent, once.
function outputs.plant(id, key, text, bytes, address)
  if find(id, key) == 0 then put(id, key, text, bytes, address) end
end

-- Keep an output within the bounds of its agent and its job: the agent's oldest ones make room.
-- Returns {'ok', dropped keys, addresses of objects to delete} | {'over', 'agent' | 'job', bound}: it was not kept, and nothing was dropped
function outputs.keep(id, job, key, text, bytes, address, most, most_of_job)
  local before, same = find(id, key)
  if address ~= '' and same == address then return { 'ok', {}, {} } end -- a repeat
  local mine, all = count(field(id, 'output_bytes')) - before, count(job_field(job, 'output_bytes')) - before
  if bytes > most then return { 'over', 'agent', most } end
  if all - mine + bytes > most_of_job then return { 'over', 'job', most_of_job } end
  local dropped, loose, freed = {}, {}, 0
  drop(id, job, key, loose)
  while mine - freed + bytes > most or all - freed + bytes > most_of_job do
    local oldest = redis.call('LINDEX', outputs.keys(id)[3], 0)
    if not oldest then break end
    freed = freed + drop(id, job, oldest, loose)
    dropped[#dropped + 1] = oldest
  end
  put(id, key, text, bytes, address)
  if address ~= '' then add(job_key(job), 'object_bytes', bytes) end
  add_bytes(id, job, bytes - before - freed)
  return { 'ok', dropped, loose }
end

-- Free the outputs of the agents that ended first.
function outputs.free(most)
  for _, id in ipairs(redis.call('ZRANGE', P .. ':freeable', 0, most - 1)) do
    redis.call('ZREM', P .. ':freeable', id)
    local job, kept = fields(id, 'job', 'output_bytes')
    -- An expired job's outputs expire, too. An archived job's outputs here are on their way, and the archive refers to its objects.
    if job and has_ended(id) and jobs.is_there(job) and not archive.holds(job) then
      for _, body in ipairs(redis.call('HVALS', P .. ':bodies:' .. id)) do
        local bytes, address = body:match('^(%d+) (.*)$')
        redis.call('ZADD', P .. ':loose', NOW, address)
        subtract(job_key(job), 'object_bytes', tonumber(bytes))
      end
      redis.call('UNLINK', unpack(outputs.keys(id)))
      add_bytes(id, job, 0 - count(kept))
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
  if field(id, 'output_bytes') then redis.call('ZADD', P .. ':freeable', NOW, id) end
end)
