-- Requests to the governor outside the steps that write a journal; the rules are in governor_common.lua.

-- Ask for a slot at the beginning of a segment. `wish` is JSON.
-- Returns {'ok', publish, the answer of `ask_for_slot`...} | {'stale'} | {'cancelled'}
step('ask_for_slot', function(id, gen, reservation)
  local refused = agents.refusal(id, gen, {})
  if refused then return { refused } end
  return { 'ok', publish, unpack(governor.ask_for_slot(id, field(id, 'job'), cjson.decode(reservation))) }
end)

-- Learn from the first reply of an unknown class when it begins: `told` is JSON, the limits in its head.
-- Returns {publish}
step('apply_limits', function(class, told)
  local a = governor.account(class)
  if a.mode == 'new' then
    learning.note_limits(a, cjson.decode(told), 0)
    governor.serve(a)
  end
  return { publish }
end)

-- Reserve the tokens of a small request beside an agent's conversation, whatever is left then.
-- Returns the seconds until it may be made
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

-- Settle that request: how it ended, and the tokens that were reserved.
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
end, { when_full = true })

-- Serve the classes that may have room now.
-- Returns {publish, seconds until the next may have room, or ''}
step('serve_classes', function()
  for _, class in ipairs(redis.call('ZRANGEBYSCORE', P .. ':governor:due', '-inf', NOW, 'LIMIT', 0, 20)) do
    governor.serve(governor.account(class))
  end
  local next = redis.call('ZRANGE', P .. ':governor:due', 0, 0, 'WITHSCORES')
  return { publish, next[2] and tostring(math.max(0, tonumber(next[2]) - NOW)) or '' }
end, { when_full = true })

-- The view for people: the account of each class, its slots, and for each job its agents in line.
-- Returns {class, account JSON, slots, {job, number, ...}, ...}, last used first; forgets classes unused for long
step('show_classes', function()
  local found = {}
  for _, class in ipairs(redis.call('ZREVRANGE', P .. ':governor', 0, 99)) do
    if redis.call('EXISTS', governor.class_key(class)) == 0 then
      redis.call('ZREM', P .. ':governor', class)
    else
      local a, lines = governor.account(class), {}
      a.rates, a.now = governor.rates_of(a), NOW
      for _, job in ipairs(redis.call('ZRANGE', governor.class_key(class, 'turns'), 0, 999)) do
        lines[#lines + 1] = job
        lines[#lines + 1] = redis.call('ZCARD', governor.class_key(class, 'line:' .. job))
      end
      for _, part in ipairs({ class, cjson.encode(a), governor.in_flight(a), lines }) do found[#found + 1] = part end
    end
  end
  return found
end)

-- Act for an operator: 'ceiling', with values a minute, '' to leave one as it is, and 'none'; 'hold', with seconds; or 'release', which ends
-- a hold and forgets what refusals have taught.
-- Returns {publish}, or {} for an unknown class
step('steer_class', function(class, act, values)
  if redis.call('EXISTS', governor.class_key(class)) == 0 then return {} end
  local a = governor.account(class)
  if act == 'hold' then governor.hold(a, NOW + tonumber(values[1]), 'operator')
  elseif act == 'release' then learning.forget(a)
  else
    for n = 1, 3 do
      if values[n] ~= '' then a.ceiling[n] = tonumber(values[n]) or false end
    end
    governor.fit_levels(a)
  end
  governor.serve(a)
  return { publish }
end, { list_after = 2 })
