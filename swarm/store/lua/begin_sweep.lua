-- Begin a look for what fell, unless another worker has begun one within `seconds`; returns 1 if it is this one's turn.
-- P:pulse tells when the last one began. Where none has for long, or ever, Redis was away (or no worker there), and nobody could renew
-- a lease: whoever lived through it has `grace_seconds` to do so, before its agents are given to others.
step('begin_sweep', function(worker, seconds, longest_gap_seconds, grace_seconds)
  local milliseconds = math.max(1, math.floor(tonumber(seconds) * 1000))
  if not redis.call('SET', P .. ':rescue-lock', worker, 'NX', 'PX', milliseconds) then return 0 end
  local before = redis.call('GET', P .. ':pulse')
  redis.call('SET', P .. ':pulse', NOW)
  if not before or NOW - tonumber(before) > tonumber(longest_gap_seconds) then
    local grace = NOW + tonumber(grace_seconds)
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. ':leases', '-inf', grace)) do
      redis.call('ZADD', P .. ':leases', 'XX', grace, id)
    end
  end
  return 1
end)
