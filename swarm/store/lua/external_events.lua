-- Report an event: waiting agents continue, and it is kept for later ones. The first event of a key stays.
--   seconds  how long to keep it
--   token    distinguishes a repeated call, as after a broken connection, from another one with the same key
-- Returns {'ok', publish, agents whose question it answered} | {'known', at, by, data}
--   | {'full', used, most}: no agent waits for it, and Redis is near its limit, in bytes
step('happen', function(key, data, by, seconds, token)
  local at, first, notifier, told, before = read(external_events.external_event_key(key), 'at', 'token', 'by', 'data', 'answered')
  if at and first ~= token then return { 'known', at, notifier, told } end
  if at then return { 'ok', publish, cjson.decode(before) } end
  local lack = redis.call('EXISTS', external_events.awaited_key(key)) == 0 and room.lack()
  if lack then return { 'full', unpack(lack) } end
  local answered = {}
  redis.call('HSET', external_events.external_event_key(key), 'data', data, 'by', by, 'at', NOW, 'token', token)
  redis.call('PEXPIRE', external_events.external_event_key(key), math.ceil(tonumber(seconds) * 1000))
  for _, id in ipairs(redis.call('SMEMBERS', external_events.awaited_key(key))) do
    local agent, expires = read(questions.key(id), 'agent', 'expires')
    if not agent then
      redis.call('SREM', external_events.awaited_key(key), id)
    elseif tonumber(expires) >= NOW then
      questions.close(id, 'answered', data, '', '', by)
      answered[#answered + 1] = agent
    end
  end
  redis.call('HSET', external_events.external_event_key(key), 'answered', cjson.encode(answered))
  return { 'ok', publish, answered }
end, { when_full = true })
