-- Queue an agent's request for a batch.
--   server  the server's address, '' for the workers' own
-- Returns {'reply', JSON} | {'asked'} | {'cancelled'} | {'stale'}
step('ask_batch', function(id, gen, request, server, body)
  local refused = agents.refusal(id, gen, {})
  if refused then return { refused } end
  local reply = redis.call('GET', lots.reply_key(request))
  if reply then return { 'reply', reply } end
  if redis.call('EXISTS', lots.request_key(request)) == 0 then
    redis.call('SET', lots.request_key(request), cjson.encode({ agent = id, server = server, body = body }))
    redis.call('ZADD', P .. ':batch:waiting', NOW, request)
    keep_with_job(field(id, 'job'), lots.request_key(request))
  end
  return { 'asked' }
end)

-- Make a lot of the waiting requests, once the first has waited long enough or there are enough of them.
--   bytes    the largest sum of their bodies
--   patience how long only the caller may take the lot, while it sends it
-- Returns {server, request, body, request, body…} | {}
step('make_lot', function(lot, seconds, most, bytes, patience)
  local waiting = P .. ':batch:waiting'
  local first = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')[2]
  if not first or (NOW - tonumber(first) < tonumber(seconds) and redis.call('ZCARD', waiting) < tonumber(most)) then return {} end
  local found, server, size = {}, nil, 0
  for _, request in ipairs(redis.call('ZRANGE', waiting, 0, tonumber(most) - 1)) do
    local document = redis.call('GET', lots.request_key(request))
    local given = document and cjson.decode(document)
    if not given or has_ended(given.agent) then
      redis.call('ZREM', waiting, request)
    elseif (server == nil or server == given.server) and (size == 0 or size + #given.body <= tonumber(bytes)) then
      server, size = given.server, size + #given.body
      found[#found + 1], found[#found + 2] = request, given.body
      redis.call('ZREM', waiting, request)
      redis.call('SADD', lots.key(lot, 'open'), request)
    end
  end
  if not server then return {} end
  redis.call('HSET', lots.key(lot), 'server', server, 'made', NOW, 'count', #found / 2, 'batch', '', 'sure', '', 'not', '[]')
  redis.call('ZADD', P .. ':batch:lots', NOW + tonumber(patience), lot)
  table.insert(found, 1, server)
  return found
end)

-- Take the lots that are due; other workers cannot take them for `patience` seconds.
-- Returns {now, batches of all lots as JSON, lot, server, made, count, batch, sure, not, lot…}
step('due_lots', function(patience)
  local found, batches = { tostring(NOW), '' }, {}
  for _, lot in ipairs(redis.call('ZRANGE', P .. ':batch:lots', 0, -1)) do
    local batch = redis.call('HGET', lots.key(lot), 'batch')
    if batch and batch ~= '' then batches[#batches + 1] = batch end
  end
  found[2] = #batches > 0 and cjson.encode(batches) or '[]'
  for _, lot in ipairs(redis.call('ZRANGEBYSCORE', P .. ':batch:lots', '-inf', NOW, 'LIMIT', 0, 20)) do
    redis.call('ZADD', P .. ':batch:lots', NOW + tonumber(patience), lot)
    found[#found + 1] = lot
    for _, value in ipairs({ read(lots.key(lot), 'server', 'made', 'count', 'batch', 'sure', 'not') }) do found[#found + 1] = value end
  end
  return found
end)

-- Note the result of sending a lot: its batch ('' if unknown), and when it is due again.
--   sure   '1': the API returned the batch
--   wrong  a batch that is another lot's, or ''
step('note_lot', function(lot, batch, sure, seconds, wrong)
  if redis.call('EXISTS', lots.key(lot)) == 0 then return 'unknown' end
  if wrong ~= '' then
    local known = cjson.decode(redis.call('HGET', lots.key(lot), 'not'))
    known[#known + 1] = wrong
    redis.call('HSET', lots.key(lot), 'not', cjson.encode(known))
  end
  redis.call('HSET', lots.key(lot), 'batch', batch, 'sure', sure)
  redis.call('ZADD', P .. ':batch:lots', NOW + tonumber(seconds), lot)
  return 'ok'
end)

-- The requests of a lot that must be sent again, unchanged. Returns {request, body…}
step('read_lot', function(lot)
  local found = {}
  for _, request in ipairs(redis.call('SMEMBERS', lots.key(lot, 'open'))) do
    local document = redis.call('GET', lots.request_key(request))
    if document then found[#found + 1], found[#found + 2] = request, cjson.decode(document).body end
  end
  return found
end)

-- Store replies and wake the agents that wait for them.
--   replies  request, JSON, request, JSON…
-- Returns {publish}
step('reply_batch', function(lot, replies)
  for i = 1, #replies, 2 do
    local request = replies[i]
    redis.call('SREM', lots.key(lot, 'open'), request)
    local document = redis.call('GET', lots.request_key(request))
    if document and redis.call('EXISTS', lots.reply_key(request)) == 0 then
      local agent = cjson.decode(document).agent
      redis.call('SET', lots.reply_key(request), replies[i + 1])
      keep_with_job(field(agent, 'job'), lots.reply_key(request))
      if field(agent, 'wait_batch') == request then agents.wake(agent, 'batch') end
    end
  end
  return { publish }
end, { list_after = 1 })

-- End a lot whose batch has ended. Returns the requests without a reply, which keep the lot open; none: the lot has ended.
step('close_lot', function(lot)
  local left = {}
  for _, request in ipairs(redis.call('SMEMBERS', lots.key(lot, 'open'))) do
    if redis.call('EXISTS', lots.reply_key(request)) == 0 and redis.call('EXISTS', lots.request_key(request)) == 1 then left[#left + 1] = request end
  end
  if #left == 0 then
    redis.call('DEL', lots.key(lot), lots.key(lot, 'open'))
    redis.call('ZREM', P .. ':batch:lots', lot)
  end
  return left
end)
