-- Who begins first of those whose requests begin alike. What a request begins with can be read from the prompt cache once the first
-- reply that writes it has begun; if all of them asked at once, each would pay to write it.
--
-- P:warm:PREFIX             string  the cache holds it, as far as anybody knows: for a while after a reply that wrote it, or a request
--                                   that read it
-- P:warming:PREFIX          string  the agent whose first reply is about to write it
-- P:warming:PREFIX:waiting  set     agents that are parked until then: new ones that have not begun, and some that ask for a slot
--
-- Of the first's fields: `opens`, the prefix. Whoever is the first and gives its process back before its reply has begun, or dies, hands
-- that on to one that waits. Those who wait have timers for when patience with a silent first ends.

sharing.GATE_SECONDS = 30
-- Shorter than what the cache keeps an entry for, unless it is read again.
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

-- Whether somebody else is about to write it.
local function is_opened_by_another(id, prefix)
  local first = redis.call('GET', P .. ':warming:' .. prefix)
  if not first or first == id then return false end
  local state, opens, slot = fields(first, 'state', 'opens', 'slot')
  if not state or TERMINAL[state] or opens ~= prefix then return false end
  return not slot or cjson.decode(slot).at + sharing.GATE_SECONDS > NOW
end

-- Park a new agent if another one is about to write what its requests begin with; else it may be the one that does.
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

-- An agent that asks for its first slot: 'read', if the cache holds what its request begins with; 'open', if it is the first; 'wait'.
function sharing.may_begin(id, prefix)
  -- It was to write another one, as whoever made it thought: those who wait for that wait in vain.
  local expected = field(id, 'opens')
  if expected and expected ~= prefix then sharing.forsake(id, expected) end
  -- An entry that is read lives on.
  if redis.call('EXPIRE', P .. ':warm:' .. prefix, sharing.WARM_SECONDS) == 1 then return 'read' end
  if is_opened_by_another(id, prefix) then
    wait_for_prefix(id, prefix)
    return 'wait'
  end
  be_first(id, prefix)
  return 'open'
end

-- Whether one that asks for a slot is in no line yet.
function sharing.waits_for_prefix(id, job)
  local reservation = cjson.decode(field(id, 'asks'))
  return not redis.call('ZSCORE', governor.class_key(reservation.class, 'line:' .. job), id)
end

-- One that has waited for a prefix goes on; `opens`, if it is to write it itself.
function sharing.go_on(id, opens)
  local asks, job = fields(id, 'asks', 'job')
  if not asks then return agents.wake(id, 'prefix') end
  local reservation = cjson.decode(asks)
  reservation.opens = opens or nil
  local a = governor.account(reservation.class)
  governor.enter_line(a, id, job, reservation)
  governor.serve(a)
end

-- The first gives up before its reply has begun.
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
