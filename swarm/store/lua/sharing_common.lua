-- Who begins first of those whose requests begin alike. What a request begins with can be read from the prompt cache once the first
-- reply that writes it has begun; if all of them asked at once, each would pay to write it.
--
-- P:warm:PREFIX             string  the cache holds it, as far as anybody knows: for a while after a reply that wrote it has begun
-- P:warming:PREFIX          string  the agent whose first reply is about to write it; for GATE_SECONDS
-- P:warming:PREFIX:waiting  set     new agents that are parked until then
--
-- All of it is a hint with a time: whoever waits has a timer for when the others' patience ends, and is woken by that whatever
-- becomes of the first. Of the first's fields: `opens`, the prefix.

local GATE_SECONDS = 2
-- Shorter than what the cache keeps an entry for, unless it is read again.
local WARM_SECONDS = 240
local WAITING_SECONDS = 60

-- Park a new agent if another one is about to write what its requests begin with; else it may be the one that does.
-- Returns whether it waits.
local function wait_for_first(id, job, prefix)
  if redis.call('EXISTS', P .. ':warm:' .. prefix) == 1 then return false end
  local warming = P .. ':warming:' .. prefix
  if redis.call('SET', warming, id, 'NX', 'PX', GATE_SECONDS * 1000) then
    redis.call('HSET', agent_key(id), 'opens', prefix)
    return false
  end
  local left = NOW + math.max(1, redis.call('PTTL', warming)) / 1000
  redis.call('SADD', warming .. ':waiting', id)
  redis.call('EXPIRE', warming .. ':waiting', WAITING_SECONDS)
  redis.call('HSET', agent_key(id), 'state', 'parked', 'activity', "waiting for another's first reply")
  redis.call('ZADD', P .. ':timers', left, id)
  emit(job, 'parked', id, 'children', 0, 'until', left, 'idle', '')
  return true
end
