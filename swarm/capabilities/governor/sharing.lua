-- End the wait for the first reply with this prefix: it has begun (`begun` is '1'), or the wait timed out. Wakes the waiting agents.
-- Returns {whether others still wait, publish}
step('let_others_begin', function(prefix, begun)
  if begun == '1' then redis.call('SET', P .. ':warm:' .. prefix, '1', 'EX', sharing.WARM_SECONDS) end
  local warming = P .. ':warming:' .. prefix
  local first = redis.call('GET', warming)
  if first then redis.call('HDEL', agent_key(first), 'opens') end
  for _, id in ipairs(redis.call('SPOP', warming .. ':waiting', AT_ONCE)) do sharing.go_on(id, false) end
  redis.call('DEL', warming)
  return { redis.call('EXISTS', warming .. ':waiting'), publish }
end)
