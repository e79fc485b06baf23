-- Begin a sweep for lost agents, unless another worker of this format has begun one within `seconds`, or since a lease expired.
-- Keeps the ledger of a past day: budgets_common.lua. Measures Redis' memory; `share` of its limit counts as full.
-- Returns {publish, 1 if it is this worker's turn, seconds until the next lease expires unless renewed; '' if there is none}.
-- P:pulse is the time of the last sweep. If it is missing or long ago, Redis was away (or no worker was running), and no lease could be
-- renewed: surviving workers get `grace_seconds` to renew theirs before their agents are given to others. If it is to come, the server's
-- clock was set back: no lease lasts longer than one made now, and classes of limits are looked at again.

-- Leases that expire shortly after each other are checked together.
local SHORTEST_SECONDS = 0.05
-- No worker waits so long for its next sweep.
local LONGEST_LOCK_SECONDS = 600

local function next_end()
  local found = redis.call('ZRANGEBYSCORE', P .. ':leases', '(' .. NOW, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return found[2] and math.max(SHORTEST_SECONDS, tonumber(found[2]) - NOW)
end

-- Let what is due after this time be due then.
local function move_back(clock, at)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. ':' .. clock, '(' .. at, '+inf')) do redis.call('ZADD', P .. ':' .. clock, at, id) end
end

step('begin_sweep', function(worker, seconds, longest_gap_seconds, grace_seconds, share)
  -- One for each format: an older sweep keeps no newer one, with more duties, from its turn.
  local lock = P .. ':rescue-lock:' .. FORMAT
  local milliseconds = math.max(1, math.floor(tonumber(seconds) * 1000))
  -- It lasts longer once the clock is set back.
  if redis.call('PTTL', lock) > math.max(milliseconds, LONGEST_LOCK_SECONDS * 1000) then redis.call('DEL', lock) end
  if not redis.call('SET', lock, worker, 'NX', 'PX', milliseconds) then return { publish, 0, tostring(next_end() or '') } end
  local before = redis.call('GET', P .. ':pulse')
  redis.call('SET', P .. ':pulse', NOW)
  if not before or NOW - tonumber(before) > tonumber(longest_gap_seconds) then
    local grace = NOW + tonumber(grace_seconds)
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. ':leases', '-inf', grace)) do
      redis.call('ZADD', P .. ':leases', 'XX', grace, id)
    end
  end
  if before and tonumber(before) > NOW then
    -- At least a whole lease.
    move_back('leases', NOW + 2 * tonumber(longest_gap_seconds))
    move_back('governor:due', NOW)
  end
  if before then budgets.turn_page(tonumber(before)) end
  local next = next_end()
  if next then redis.call('PEXPIRE', lock, math.max(1, math.min(milliseconds, math.floor(next * 1000)))) end
  room.sweep(tonumber(share))
  return { publish, 1, tostring(next or '') }
end, { when_full = true })
