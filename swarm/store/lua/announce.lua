-- Announce a worker's capabilities, and in `offers` those that not every worker has. A worker silent for `seconds` counts as gone.
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
  return 'ok'
end, { when_full = true })
