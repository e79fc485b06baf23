-- Announce how many agents a worker can run now; 0 if it takes no more. Workers silent for long are removed.
-- Returns {publish}
step('staff', function(worker, slots, seconds)
  if tonumber(slots) > 0 then
    redis.call('HSET', P .. ':slots', worker, slots)
    redis.call('ZADD', P .. ':staff', NOW, worker)
  else
    redis.call('HDEL', P .. ':slots', worker)
    redis.call('ZREM', P .. ':staff', worker)
  end
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', P .. ':staff', '-inf', NOW - tonumber(seconds))) do
    redis.call('HDEL', P .. ':slots', gone)
    redis.call('ZREM', P .. ':staff', gone)
  end
  moved = true
  return { publish }
end, { when_full = true })
