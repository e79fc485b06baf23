local function forget(name, id)
  redis.call('ZREM', webhooks_key(name), id)
  redis.call('DEL', webhook_key(name, id))
end

-- Nobody will be told; whoever reads the job's events learns that.
local function give_up(name, id, why)
  local job, tries = read(webhook_key(name, id), 'job', 'tries')
  forget(name, id)
  local root = job and job_field(job, 'root')
  if root then emit(job, 'undelivered', root, 'webhook', name, 'notice', id, 'tries', tries, 'why', why) end
end

-- Say which addresses a worker delivers to, by name.
step('know_webhooks', function(names)
  for _, name in ipairs(cjson.decode(names)) do redis.call('ZADD', webhooks_key(), NOW, name) end
  redis.call('ZREMRANGEBYSCORE', webhooks_key(), '-inf', NOW - NAMED_SECONDS)
  return 'ok'
end)

-- Take the notices that are to be sent to an address now. Each is offered again after `lease` seconds, unless it is settled or put off;
-- one older than `longest` seconds is given up.
-- Returns {id, notice, tries, the job's address or '', id, …}
step('due_webhooks', function(name, most, lease, longest)
  local found = {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', webhooks_key(name), '-inf', NOW, 'LIMIT', 0, tonumber(most))) do
    local job, notice, at, why = read(webhook_key(name, id), 'job', 'notice', 'at', 'why')
    local address = name == OWN and job and redis.call('GET', job_key(job, 'webhook')) or ''
    if not notice or (name == OWN and address == '') then
      forget(name, id)
    elseif NOW - tonumber(at) > tonumber(longest) then
      give_up(name, id, why or 'no worker delivered it in time')
    else
      local tries = redis.call('HINCRBY', webhook_key(name, id), 'tries', 1)
      redis.call('ZADD', webhooks_key(name), NOW + tonumber(lease), id)
      for _, value in ipairs({ id, notice, tostring(tries), address }) do found[#found + 1] = value end
    end
  end
  return found
end)

-- A notice was delivered.
step('settle_webhook', function(name, id) forget(name, id) return 'ok' end)

-- It was not: it is due again after so many seconds, or never (`after` is '').
step('put_off_webhook', function(name, id, after, why)
  if redis.call('EXISTS', webhook_key(name, id)) == 0 then return 'unknown' end
  if after == '' then
    give_up(name, id, why)
  else
    redis.call('HSET', webhook_key(name, id), 'why', why)
    redis.call('ZADD', webhooks_key(name), 'XX', NOW + tonumber(after), id)
  end
  return 'ok'
end)
