local function forget(name, id)
  redis.call('ZREM', webhooks.key(name), id)
  redis.call('DEL', webhooks.notice_key(name, id))
end

-- Give up a notice: it is sent only if a person resends it, and the job's events record it.
local function give_up(name, id, why)
  local job, tries = read(webhooks.notice_key(name, id), 'job', 'tries')
  redis.call('ZREM', webhooks.key(name), id)
  redis.call('HSET', webhooks.notice_key(name, id), 'why', why)
  redis.call('ZADD', webhooks.lost_key(name), NOW, id)
  redis.call('ZREMRANGEBYSCORE', webhooks.lost_key(name), '-inf', NOW - webhooks.NOTICE_SECONDS)
  redis.call('EXPIRE', webhooks.lost_key(name), webhooks.NOTICE_SECONDS)
  local root, archived
  if job then root, archived = job_fields(job, 'root', 'archived') end
  if root and not archived then emit(job, 'undelivered', root, 'webhook', name, 'notice', id, 'tries', tries, 'why', why) end
end

-- Announce the addresses that a worker delivers to, by name.
step('know_webhooks', function(names)
  for _, name in ipairs(cjson.decode(names)) do redis.call('ZADD', webhooks.key(), NOW, name) end
  redis.call('ZREMRANGEBYSCORE', webhooks.key(), '-inf', NOW - webhooks.NAMED_SECONDS)
  return 'ok'
end, { when_full = true })

-- Take the notices that are due at an address. Each is offered again after `lease` seconds, unless it is settled or put off;
-- one older than `longest` seconds is given up.
-- Returns {id, notice, tries, the job's address or '', id, …}
step('due_webhooks', function(name, most, lease, longest)
  local found = {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', webhooks.key(name), '-inf', NOW, 'LIMIT', 0, tonumber(most))) do
    local job, notice, at, why = read(webhooks.notice_key(name, id), 'job', 'notice', 'at', 'why')
    local address = name == webhooks.OWN and job and redis.call('GET', job_key(job, 'webhook')) or ''
    if not notice or (name == webhooks.OWN and address == '') then
      forget(name, id)
    elseif NOW - tonumber(at) > tonumber(longest) then
      give_up(name, id, why or 'no worker delivered it in time')
    else
      local tries = redis.call('HINCRBY', webhooks.notice_key(name, id), 'tries', 1)
      redis.call('ZADD', webhooks.key(name), NOW + tonumber(lease), id)
      for _, value in ipairs({ id, notice, tostring(tries), address }) do found[#found + 1] = value end
    end
  end
  return found
end, { when_full = true })

-- Settle a delivered notice.
step('settle_webhook', function(name, id) forget(name, id) return 'ok' end, { when_full = true })

-- Put off an undelivered notice: it is due again after so many seconds, or never (`after` is '').
step('put_off_webhook', function(name, id, after, why)
  if redis.call('EXISTS', webhooks.notice_key(name, id)) == 0 then return 'unknown' end
  if after == '' then
    give_up(name, id, why)
  else
    redis.call('HSET', webhooks.notice_key(name, id), 'why', why)
    redis.call('ZADD', webhooks.key(name), 'XX', NOW + tonumber(after), id)
  end
  return 'ok'
end, { when_full = true })

-- Queue a test notice for an address.
step('test_webhook', function(name, id, notice)
  webhooks.keep_notice(name, id, '', notice)
  return 'ok'
end)

-- The state of a notice. Returns {'delivered'} | {'waits', tries, why} | {'lost', tries, why}
step('find_notice', function(name, id)
  local tries, why = read(webhooks.notice_key(name, id), 'tries', 'why')
  if not tries then return { 'delivered' } end
  return { redis.call('ZSCORE', webhooks.lost_key(name), id) and 'lost' or 'waits', tries, why or '' }
end)

-- The states of addresses that workers deliver to, or did within a day.
-- Returns {name, time of a worker's last announcement, number waiting, number given up, the one that waits longest, …}
step('list_webhooks', function()
  local found = {}
  for _, name in ipairs(redis.call('ZRANGE', webhooks.key(), 0, -1)) do
    local first = redis.call('ZRANGE', webhooks.key(name), 0, 0)[1] or ''
    local told = { name, redis.call('ZSCORE', webhooks.key(), name), redis.call('ZCARD', webhooks.key(name)),
      redis.call('ZCOUNT', webhooks.lost_key(name), NOW - webhooks.NOTICE_SECONDS, '+inf'), first }
    for _, value in ipairs(told) do found[#found + 1] = tostring(value) end
  end
  return found
end)

-- Resend all notices that were given up at an address. Returns their number.
step('resend_webhooks', function(name)
  local again = 0
  for _, id in ipairs(redis.call('ZRANGE', webhooks.lost_key(name), 0, -1)) do
    local key = webhooks.notice_key(name, id)
    if redis.call('EXISTS', key) == 1 then
      redis.call('HSET', key, 'at', NOW, 'tries', 0)
      redis.call('EXPIRE', key, webhooks.NOTICE_SECONDS)
      redis.call('ZADD', webhooks.key(name), NOW, id)
      again = again + 1
    end
  end
  redis.call('DEL', webhooks.lost_key(name))
  return again
end)
