-- What is asked of the governor outside of the steps that write a journal: governor_common.lua.

-- Ask for a slot at the beginning of a segment. `wish` is JSON.
-- Returns {'ok', publish, the answer of `ask_for_slot`...} | {'stale'} | {'cancelled'}
step('ask_for_slot', function(id, gen, reservation)
  local refused = agents.refusal(id, gen, {})
  if refused then return { refused } end
  return { 'ok', publish, unpack(governor.ask_for_slot(id, field(id, 'job'), cjson.decode(reservation))) }
end)

-- A reply of a class that nothing is known of has begun: `told` is JSON, what its head says of limits.
-- Returns {publish}
step('apply_limits', function(class, told)
  local a = governor.account(class)
  if a.mode == 'new' then
    governor.learn(a, cjson.decode(told), 0)
    governor.serve(a)
  end
  return { publish }
end)

-- A small request beside an agent's conversation is about to be made: it takes what it needs, whatever is left then.
-- Returns in how many seconds it may be made
step('ask_aside', function(class, input, output)
  redis.call('ZADD', P .. ':governor', NOW, class)
  local a = governor.account(class)
  local need = { 1, tonumber(input), tonumber(output) }
  local seconds = governor.seconds_until(a, need)
  for n = 1, 3 do a.level[n] = a.level[n] - need[n] end
  a.sent = a.sent + 1
  governor.save(a)
  return tostring(seconds)
end)

-- That request has ended so, of which so much had been taken.
-- Returns {publish}
step('settle_aside', function(call, input, output)
  call = cjson.decode(call)
  local a = governor.account(call.class)
  local rates = governor.rates_of(a)
  if call.as ~= 'lost' then
    local back = { call.as == 'ok' and 0 or 1, tonumber(input) - call.input, tonumber(output) - call.output }
    for n = 1, 3 do a.level[n] = math.min(rates[n], a.level[n] + back[n]) end
  end
  governor.settle_call('', call)
  return { publish }
end)

-- Serve the classes for which there may be room now.
-- Returns {publish, in how many seconds there may be for the next, or ''}
step('serve_classes', function()
  for _, class in ipairs(redis.call('ZRANGEBYSCORE', P .. ':governor:due', '-inf', NOW, 'LIMIT', 0, 20)) do
    governor.serve(governor.account(class))
  end
  local next = redis.call('ZRANGE', P .. ':governor:due', 0, 0, 'WITHSCORES')
  return { publish, next[2] and tostring(math.max(0, tonumber(next[2]) - NOW)) or '' }
end)

-- What people see: of each class its account, how many hold a slot, and of each job how many are in line.
-- Returns {class, account JSON, slots, {job, how many, ...}, ...}, those used last first; forgets what has not been used for long
step('show_classes', function()
  redis.call('ZREMRANGEBYSCORE', P .. ':governor', '-inf', NOW - governor.CLASS_SECONDS)
  local found = {}
  for _, class in ipairs(redis.call('ZREVRANGE', P .. ':governor', 0, 99)) do
    local a, lines = governor.account(class), {}
    a.rates, a.now = governor.rates_of(a), NOW
    for _, job in ipairs(redis.call('ZRANGE', governor.class_key(class, 'turns'), 0, 999)) do
      lines[#lines + 1] = job
      lines[#lines + 1] = redis.call('ZCARD', governor.class_key(class, 'line:' .. job))
    end
    for _, part in ipairs({ class, cjson.encode(a), governor.in_flight(a), lines }) do found[#found + 1] = part end
  end
  return found
end)
