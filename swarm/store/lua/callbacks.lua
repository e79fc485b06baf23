-- Announce the brokers that a worker knows.
step('know_brokers', function(names)
  for _, name in ipairs(cjson.decode(names)) do redis.call('ZADD', P .. ':brokers', NOW, name) end
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', P .. ':brokers', '-inf', NOW - callbacks.BROKER_SECONDS)) do
    if redis.call('ZCARD', callbacks.key(name)) == 0 then redis.call('ZREM', P .. ':brokers', name) end
  end
  return 'ok'
end, { when_full = true })

-- Brokers with due callbacks that no worker has named for `silent` seconds. Returns {broker, jobs, broker, jobs…}
step('stranded_callbacks', function(silent)
  local found = {}
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', P .. ':brokers', '-inf', NOW - tonumber(silent))) do
    local due = redis.call('ZCARD', callbacks.key(name))
    if due > 0 then
      found[#found + 1] = name
      found[#found + 1] = due
    end
  end
  return found
end)

-- Take the callbacks due on a broker. An unsettled one is due again, at growing intervals.
-- Returns {job, callback, job, callback…}
step('due_callbacks', function(broker, most)
  local found = {}
  for _, job in ipairs(redis.call('ZRANGEBYSCORE', callbacks.key(broker), '-inf', NOW, 'LIMIT', 0, tonumber(most))) do
    local callback = job_field(job, 'callback')
    if callback then
      local tries = redis.call('HINCRBY', job_key(job), 'callback_tries', 1)
      redis.call('ZADD', callbacks.key(broker), NOW + math.min(3600, 7.5 * 2 ^ tries), job)
      found[#found + 1] = job
      found[#found + 1] = callback
    else
      redis.call('ZREM', callbacks.key(broker), job)
    end
  end
  return found
end, { when_full = true })

-- Mark a callback as done (`after` is ''), or postpone it for `after` seconds.
step('settle_callback', function(job, after)
  local broker = job_field(job, 'callback_broker')
  if not broker then return 'unknown' end
  if after == '' then
    redis.call('ZREM', callbacks.key(broker), job)
  else
    redis.call('ZADD', callbacks.key(broker), 'XX', NOW + tonumber(after), job)
  end
  return 'ok'
end, { when_full = true })
