-- Begin a look for what fell, unless another worker has begun one within `seconds`, or since a lease ran out.
-- Returns {1 if it is this one's turn, in how many seconds the next lease runs out unless it is renewed; '' if there is none}.
-- P:pulse tells when the last one began. Where none has for long, or ever, Redis was away (or no worker there), and nobody could renew
-- a lease: whoever lived through it has `grace_seconds` to do so, before its agents are given to others.

-- Leases that run out one after the other are looked at together.
local SHORTEST_SECONDS = 0.05

local function next_end()
  local found = redis.call('ZRANGEBYSCORE', P .. ':leases', '(' .. NOW, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return found[2] and math.max(SHORTEST_SECONDS, tonumber(found[2]) - NOW)
end

step('begin_sweep', function(worker, seconds, longest_gap_seconds, grace_seconds)
  local lock = P .. ':rescue-lock'
  local milliseconds = math.max(1, math.floor(tonumber(seconds) * 1000))
  if not redis.call('SET', lock, worker, 'NX', 'PX', milliseconds) then return { 0, tostring(next_end() or '') } end
  local before = redis.call('GET', P .. ':pulse')
  redis.call('SET', P .. ':pulse', NOW)
  if not before or NOW - tonumber(before) > tonumber(longest_gap_seconds) then
    local grace = NOW + tonumber(grace_seconds)
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. ':leases', '-inf', grace)) do
      redis.call('ZADD', P .. ':leases', 'XX', grace, id)
    end
  end
  local next = next_end()
  if next then redis.call('PEXPIRE', lock, math.max(1, math.min(milliseconds, math.floor(next * 1000)))) end
  return { 1, tostring(next or '') }
end)
