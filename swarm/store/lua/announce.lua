-- Announce a worker's capabilities, and in `offers` the ones that some workers lack. A worker silent for `seconds` counts as gone.
-- Returns Redis' clock.
step('announce', function(worker, has, offers, seconds)
  local silent = P .. ':workers:silent'
  redis.call('HSET', P .. ':workers', worker, has)
  redis.call('HSET', P .. ':offers', worker, offers)
  redis.call('ZADD', silent, NOW + tonumber(seconds), worker)
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', silent, '-inf', NOW)) do
    redis.call('HDEL', P .. ':workers', gone)
    redis.call('HDEL', P .. ':offers', gone)
    redis.call('ZREM', silent, gone)
  end
  return tostring(NOW)
end, { when_full = true })

-- The live workers: {worker, its capabilities, worker, …}
step('workers', function()
  local found = {}
  for _, worker in ipairs(redis.call('ZRANGEBYSCORE', P .. ':workers:silent', NOW, '+inf')) do
    local has = redis.call('HGET', P .. ':workers', worker)
    if has then
      found[#found + 1] = worker
      found[#found + 1] = has
    end
  end
  return found
end, { reads = true })
