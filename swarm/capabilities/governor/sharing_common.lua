-- Let one agent go first among those whose requests begin alike. The prompt cache serves a beginning only after the first reply that writes
-- it has begun. If all agents asked at once, each would pay to write it.
--
-- P:warm:PREFIX             string  the cache probably holds it: set for a while after a reply that wrote it, or a request that read it
-- P:warming:PREFIX          string  the agent whose first reply is about to write it
-- P:warming:PREFIX:waiting  set     agents that are parked until then: new ones that have not begun, and some that ask for a slot
--
-- The first agent's field `opens` holds the prefix. If the first parks, ends or dies before its reply has begun, a waiting agent becomes
-- the first. Waiting agents have timers that limit the wait for a silent first.

sharing.GATE_SECONDS = 30
-- Shorter than the cache's lifetime of an entry, unless the entry is read again.
sharing.WARM_SECONDS = 240
local WARMING_SECONDS = 3600

local function be_first(id, prefix)
  redis.call('SET', P .. ':warming:' .. prefix, id, 'EX', WARMING_SECONDS)
  redis.call('HSET', agent_key(id), 'opens', prefix)
end

local function wait_for_prefix(id, prefix)
  local waiting = P .. ':warming:' .. prefix .. ':waiting'
  redis.call('SADD', waiting, id)
  redis.call('EXPIRE', waiting, WARMING_SECONDS)
end

-- Whether another agent is about to write it.
local function is_opened_by_another(id, prefix)
  local first = redis.call('GET', P .. ':warming:' .. prefix)
  if not first or first == id then return false end
  local state, opens, slot = fields(first, 'state', 'opens', 'slot')
  if not state or TERMINAL[state] or opens ~= prefix then return false end
  return not slot or cjson.decode(slot).at + sharing.GATE_SECONDS > NOW
end

-- Park a new agent if another one is about to write its prefix; else it may become the first.
-- Returns whether it waits.
function sharing.wait_for_first(id, job, prefix)
  if redis.call('EXISTS', P .. ':warm:' .. prefix) == 1 then return false end
  if not is_opened_by_another(id, prefix) then
    be_first(id, prefix)
    return false
  end
  wait_for_prefix(id, prefix)
  redis.call('HSET', agent_key(id), 'state', 'parked', 'activity', "waiting for another's first reply")
  redis.call('ZADD', P .. ':timers', NOW + sharing.GATE_SECONDS, id)
  emit(job, 'parked', id, 'children', 0, 'until', NOW + sharing.GATE_SECONDS, 'idle', '')
  return true
end

-- Decide for an agent that asks for its first slot: 'read', if the cache holds its prefix; 'open', if it is the first; 'wait'.
function sharing.may_begin(id, prefix)
  -- Its creator predicted another prefix: agents that wait for that one wait in vain.
  local expected = field(id, 'opens')
  if expected and expected ~= prefix then sharing.forsake(id, expected) end
  -- Reading an entry renews it.
  if redis.call('EXPIRE', P .. ':warm:' .. prefix, sharing.WARM_SECONDS) == 1 then return 'read' end
  if is_opened_by_another(id, prefix) then
    wait_for_prefix(id, prefix)
    return 'wait'
  end
  be_first(id, prefix)
  return 'open'
end

-- Whether an agent that asks for a slot is in no line yet.
function sharing.waits_for_prefix(id, job)
  local reservation = cjson.decode(field(id, 'asks'))
  return not redis.call('ZSCORE', governor.class_key(reservation.class, 'line:' .. job), id)
end

-- Wake an agent that waited for a prefix; with `opens`, if it must write the prefix itself.
function sharing.go_on(id, opens)
  local asks, job = fields(id, 'asks', 'job')
  if not asks then return agents.wake(id, 'prefix') end
  local reservation = cjson.decode(asks)
  reservation.opens = opens or nil
  local a = governor.account(reservation.class)
  governor.enter_line(a, id, job, reservation)
  governor.serve(a)
end

-- Give up the first's role before its reply has begun.
function sharing.forsake(id, prefix)
  local warming = P .. ':warming:' .. prefix
  redis.call('HDEL', agent_key(id), 'opens')
  if redis.call('GET', warming) ~= id then return end
  redis.call('DEL', warming)
  local next = redis.call('SPOP', warming .. ':waiting')
  while next and has_ended(next) do next = redis.call('SPOP', warming .. ':waiting') end
  if next then
    be_first(next, prefix)
    sharing.go_on(next, true)
  end
end
