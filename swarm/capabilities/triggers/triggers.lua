local function firing_key(name, id) return triggers.key(name, 'firing', id) end

-- Put a trigger, or change it. `next` is the first time of a schedule, `due` that time with its jitter; '' without.
-- Returns 'new' | 'changed' | 'same'
step('put_trigger', function(name, document, by, facts, next, due)
  local known = redis.call('HGET', triggers.key(name), 'document')
  if known == document then return 'same' end
  redis.call('ZADD', triggers.all_key(), 'NX', NOW, name)
  redis.call('HDEL', triggers.key(name), 'budget', 'purse', 'per', 'next')
  redis.call('HSET', triggers.key(name), 'document', document, 'by', by, 'at', NOW)
  for field_name, value in pairs(cjson.decode(facts)) do redis.call('HSET', triggers.key(name), field_name, value) end
  if next == '' then
    redis.call('ZREM', triggers.all_key('next'), name)
  else
    redis.call('HSET', triggers.key(name), 'next', next)
    redis.call('ZADD', triggers.all_key('next'), due, name)
  end
  return known and 'changed' or 'new'
end)

-- Delete a trigger with its firings. Its jobs stay. Returns 0 for an unknown one.
step('delete_trigger', function(name)
  local due = triggers.due_key(name)
  if redis.call('ZREM', triggers.all_key(), name) == 0 then return 0 end
  redis.call('ZREM', triggers.all_key('next'), name)
  for _, id in ipairs(redis.call('ZRANGE', triggers.key(name, 'firings'), 0, -1)) do
    local key, job = read(firing_key(name, id), 'key', 'job')
    redis.call('ZREM', due, name .. '/' .. id)
    redis.call('DEL', firing_key(name, id), triggers.key(name, 'last', key or ''), triggers.key(name, 'line', key or ''))
    if job then redis.call('HDEL', triggers.all_key('jobs'), job) end
  end
  redis.call('DEL', triggers.key(name), triggers.key(name, 'firings'))
  return 1
end, { when_full = true })

-- Pause a trigger, or go on with it: `next` and `due` are then as for `put_trigger`. Returns 0 for an unknown one.
step('pause_trigger', function(name, paused, next, due)
  if redis.call('EXISTS', triggers.key(name)) == 0 then return 0 end
  if paused == '1' then
    redis.call('HSET', triggers.key(name), 'paused', NOW)
    redis.call('ZREM', triggers.all_key('next'), name)
  else
    redis.call('HDEL', triggers.key(name), 'paused')
    if next ~= '' then
      redis.call('HSET', triggers.key(name), 'next', next)
      redis.call('ZADD', triggers.all_key('next'), due, name)
    end
  end
  return 1
end, { when_full = true })

-- Returns {name, document, by, at, paused or '', next or '', firings, those not started, …}
step('list_triggers', function(only)
  local found = {}
  for _, name in ipairs(only ~= '' and { only } or redis.call('ZRANGE', triggers.all_key(), 0, -1)) do
    local document, by, at, paused, next = read(triggers.key(name), 'document', 'by', 'at', 'paused', 'next')
    if document then
      local open = 0
      for _, id in ipairs(redis.call('ZREVRANGE', triggers.key(name, 'firings'), 0, 99)) do
        local state = redis.call('HGET', firing_key(name, id), 'state')
        if state == 'waiting' or state == 'starting' then open = open + 1 end
      end
      local last = redis.call('ZREVRANGE', triggers.key(name, 'firings'), 0, 0, 'WITHSCORES')[2]
      local told = { name, document, by, at, paused or '', next or '', redis.call('ZCARD', triggers.key(name, 'firings')), open, last or '' }
      for _, value in ipairs(told) do found[#found + 1] = tostring(value) end
    end
  end
  return found
end, { reads = true })

-- Returns {id, at, state, job, why, key, tries, event or '', …}, newest first; only one if `id` is given, with its event.
step('list_firings', function(name, id, most)
  local found = {}
  for _, one in ipairs(id ~= '' and { id } or redis.call('ZREVRANGE', triggers.key(name, 'firings'), 0, tonumber(most) - 1)) do
    local at, state, job, why, key, tries, event = read(firing_key(name, one), 'at', 'state', 'job', 'why', 'key', 'tries', 'event')
    if at then
      for _, value in ipairs({ one, at, state, job or '', why or '', key or '', tries or '0', id ~= '' and event or '' }) do found[#found + 1] = value end
    end
  end
  return found
end, { reads = true })

local function take_in(name, id, event, key, job, named)
  redis.call('HSET', firing_key(name, id), 'at', NOW, 'event', event, 'key', key, 'job', job, 'state', 'waiting', 'named', named)
  redis.call('EXPIRE', firing_key(name, id), triggers.KEPT_SECONDS)
  redis.call('ZADD', triggers.key(name, 'firings'), NOW, id)
  redis.call('ZREMRANGEBYSCORE', triggers.key(name, 'firings'), '-inf', NOW - triggers.KEPT_SECONDS)
  local old = redis.call('ZREVRANGE', triggers.key(name, 'firings'), triggers.EVENTS_KEPT, triggers.EVENTS_KEPT)[1]
  if old and redis.call('HGET', firing_key(name, old), 'state') ~= 'waiting' then redis.call('HDEL', firing_key(name, old), 'event') end
  redis.call('ZADD', triggers.due_key(name), NOW, name .. '/' .. id)
end

-- Take in an event, once for its id. `named`: the job whose branch is its key, or ''. `by_hand`: also by a paused trigger, and not counted.
-- Returns {'taken'} | {'duplicate', state, job} | {'unknown'} | {'paused'} | {'many', most} | {'full', used, most}
step('take_event', function(name, id, event, key, job, named, per_hour, by_hand)
  local document, paused = read(triggers.key(name), 'document', 'paused')
  if not document then return { 'unknown' } end
  local state, known = read(firing_key(name, id), 'state', 'job')
  if state then return { 'duplicate', state, known } end
  if by_hand == '' then
    if paused then return { 'paused' } end
    local hour = triggers.key(name, 'hour', math.floor(NOW / 3600))
    if count(redis.call('GET', hour)) >= tonumber(per_hour) then return { 'many', per_hour } end
    redis.call('INCR', hour)
    redis.call('EXPIRE', hour, 7200)
  end
  local lack = room.lack()
  if lack then return { 'full', unpack(lack) } end
  take_in(name, id, event, key, job, named)
  return { 'taken' }
end)

-- The schedules that are due, and whether firings are, here. Returns {'1' or '0', name, document, next, …}
step('due_schedules', function(host, most)
  local waits = false
  for _, at_host in ipairs({ '', host }) do
    waits = waits or redis.call('ZCOUNT', triggers.all_key('due:' .. at_host), '-inf', NOW) > 0
  end
  local found = { waits and '1' or '0' }
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', triggers.all_key('next'), '-inf', NOW, 'LIMIT', 0, tonumber(most))) do
    local document, next = read(triggers.key(name), 'document', 'next')
    if document then
      for _, value in ipairs({ name, document, next }) do found[#found + 1] = value end
    end
  end
  return found
end, { reads = true })

-- Move a schedule from the time that was next to a later one, and take in the events of the times between: JSON [[id, event, key, job], …].
-- Another worker that was first changes `next`, and this one then does nothing. Returns whether it did.
step('advance_schedule', function(name, expected, next, due, events)
  local known, paused = read(triggers.key(name), 'next', 'paused')
  if known ~= expected or paused then return 0 end
  redis.call('HSET', triggers.key(name), 'next', next)
  redis.call('ZADD', triggers.all_key('next'), due, name)
  for _, one in ipairs(cjson.decode(events)) do
    if redis.call('EXISTS', firing_key(name, one[1])) == 0 then take_in(name, one[1], one[2], one[3], one[4], '') end
  end
  return 1
end)

-- Judge a firing by the rule among those of its key. Returns its fate, and the open or last job of the key.
local function judge(name, id, rule, key)
  if rule == 'parallel' then return 'start', '' end
  local before = redis.call('GET', triggers.key(name, 'last', key))
  if not before and rule == 'continue' then
    -- An event can only name a job that events have started, for the same owner.
    local named = redis.call('HGET', firing_key(name, id), 'named') or ''
    local by = named ~= '' and job_field(named, 'trigger_of')
    return 'start', by and by == redis.call('HGET', triggers.key(name), 'by') and named or ''
  end
  if not before or before == id then return 'start', '' end
  local state, job = read(firing_key(name, before), 'state', 'job')
  if state == 'starting' and (rule == 'continue' or rule == 'replace') then return 'later', '' end
  local job_state = job and job_field(job, 'state')
  local open = state == 'starting' or (state == 'started' and job_state and not TERMINAL[job_state])
  if rule == 'continue' then return 'start', state == 'started' and job_state and job or '' end
  if not open then return 'start', '' end
  return rule, job
end

-- Reserve the job's budget in the trigger's purse. Returns whether there is enough.
local function reserve(name, id, job, continued)
  local purse, budget, per = read(triggers.key(name), 'purse', 'budget', 'per')
  -- Taken again, or continued while it is open: its money is reserved.
  if not purse or redis.call('HEXISTS', firing_key(name, id), 'reserved') == 1 then return true end
  if redis.call('HEXISTS', triggers.all_key('jobs'), job) == 1 then return true end
  local before = continued and count(job_field(job, 'cost')) or 0
  local wanted = math.max(0, tonumber(budget) - before)
  local period = tostring(math.floor(NOW / tonumber(per)))
  if count(redis.call('GET', triggers.key(name, 'spent', period))) + wanted > tonumber(purse) then return false end
  redis.call('HSET', firing_key(name, id), 'reserved', string.format('%.0f', wanted), 'before', before, 'period', period)
  triggers.spend(name, id, wanted)
  return true
end

-- Take firings that are due, here; each is offered again after `lease` seconds unless it is settled.
-- Returns {name, id, document, event, job, what to do: start | replace | continue, the other job or '', tries, …}
step('take_firings', function(host, most, lease)
  local found, left = {}, tonumber(most)
  for _, at_host in ipairs({ '', host }) do
    local due = triggers.all_key('due:' .. at_host)
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', NOW, 'LIMIT', 0, 100)) do
      local name, id = string.match(member, '^([^/]+)/(.*)$')
      local document, rule = read(triggers.key(name), 'document', 'rule')
      local event, key, job = read(firing_key(name, id), 'event', 'key', 'job')
      if not document or not event then
        redis.call('ZREM', due, member)
      elseif left > 0 then
        local fate, other = judge(name, id, rule, key)
        if fate == 'skip' then
          redis.call('ZREM', due, member)
          redis.call('HSET', firing_key(name, id), 'state', 'skipped', 'job', other, 'why', 'a job of its key is open')
        elseif fate == 'queue' then
          redis.call('ZREM', due, member)
          redis.call('RPUSH', triggers.key(name, 'line', key), id)
        elseif fate == 'later' then
          redis.call('ZADD', due, NOW + 1, member)
        else
          if fate == 'start' and other ~= '' then fate = 'continue' end
          local mine = fate == 'continue' and other or job
          if not reserve(name, id, mine, fate == 'continue') then
            redis.call('ZREM', due, member)
            redis.call('HSET', firing_key(name, id), 'state', 'refused', 'why', "the trigger's purse is empty")
          else
            redis.call('HSET', firing_key(name, id), 'state', 'starting', 'job', mine)
            redis.call('SET', triggers.key(name, 'last', key), id, 'EX', triggers.KEPT_SECONDS)
            -- Taken again after its job has ended: that end has released it.
            if redis.call('HEXISTS', firing_key(name, id), 'released') == 0 then redis.call('HSETNX', triggers.all_key('jobs'), mine, member) end
            redis.call('ZADD', due, NOW + tonumber(lease), member)
            local tries = redis.call('HINCRBY', firing_key(name, id), 'tries', 1)
            for _, value in ipairs({ name, id, document, event, mine, fate, other, tostring(tries) }) do found[#found + 1] = value end
            left = left - 1
          end
        end
      end
    end
  end
  return found
end)

-- Settle a firing: `started`, or `failed` for good with its reason.
step('settle_firing', function(name, id, state, job, why)
  redis.call('ZREM', triggers.due_key(name), name .. '/' .. id)
  if redis.call('EXISTS', firing_key(name, id)) == 0 then return 'gone' end
  local was = redis.call('HGET', firing_key(name, id), 'job')
  if state == 'started' and redis.call('EXISTS', job_key(job)) == 1 then
    redis.call('HSETNX', job_key(job), 'trigger_of', redis.call('HGET', triggers.key(name), 'by') or '')
  end
  redis.call('HSET', firing_key(name, id), 'state', state, 'job', state == 'started' and job or '', 'why', why)
  if state == 'failed' and was and redis.call('HGET', triggers.all_key('jobs'), was) == name .. '/' .. id then
    redis.call('HDEL', triggers.all_key('jobs'), was)
    triggers.release(name, id, 0)
  end
  return 'ok'
end, { when_full = true })
