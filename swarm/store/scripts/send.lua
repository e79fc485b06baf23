-- Send one message to one or several mailboxes of a job; a receiver that waits for mail is woken, one that has ended (and was not
-- cancelled) begins its next run. All receivers get it, or none.
-- ARGV: prefix, message JSON, claim JSON, receiver...
--   message  {job, from, name, kind, body, reply_to, max_unread, live_only?, request?, expires?, approve?, token}
--            a kind *_request opens the request `request` until `expires` seconds from now; a *_response answers `reply_to`
--            `token` is set from outside only, where no journal tells a repeat: its answer is kept for an hour
--   claim    {} from outside; from an agent {generation, number, entry}: the call's result enters its journal in the same step
-- Answers {'ok', publish, unread of the sender, ids of the message in the mailboxes} | {'repeat'} | {'stale'} | {'cancelled'} | {'unknown', receiver}
--   | {'ended', receiver, state} | {'full', receiver} | {'over'} | {'request', why it cannot be answered}
local message, claim = cjson.decode(ARGV[2]), cjson.decode(ARGV[3])
local job, from = message.job, message.from
if claim.generation then
  local refused = refusal(from, tostring(claim.generation), { running = true }, claim.number, 1)
  if refused then return { refused } end
end
local sent = P .. ':sent:' .. message.token
if message.token ~= '' then
  -- Whoever was put on the queue is in the outbox, so nothing but the ids is left to tell.
  local before = redis.call('GET', sent)
  if before then return { 'ok', publish, 0, cjson.decode(before) } end
end
local over = redis.call('HMGET', job_key(job), 'state', 'root')
if not over[1] then return { 'over' } end
for i = 4, #ARGV do
  local to = ARGV[i]
  if to == job then
    if tonumber(redis.call('HGET', job_key(job), 'unread') or '0') >= message.max_unread then return { 'full', to } end
  else
    local record = redis.call('HMGET', agent_key(to), 'state', 'job', 'unread', 'unread_notes')
    if record[2] ~= job then return { 'unknown', to } end
    if record[1] == 'cancelled' or (message.live_only and TERMINAL[record[1]]) then return { 'ended', to, record[1] } end
    if TERMINAL[over[1]] and to ~= over[2] then return { 'over' } end
    -- One that has ended reads again because of this message, so it cannot stay full for ever.
    if not TERMINAL[record[1]] and tonumber(record[3] or '0') - tonumber(record[4] or '0') >= message.max_unread then
      return { 'full', to }
    end
  end
end
local requests = job_key(job) .. ':requests'
local asked = message.kind:match('^(.*)_request$')
local answered = message.kind:match('^(.*)_response$')
if answered then
  local request = redis.call('HGET', requests, message.reply_to)
  if not request then return { 'request', 'there is no such request' } end
  request = cjson.decode(request)
  if request.kind ~= answered then return { 'request', 'it is a request for ' .. request.kind } end
  if request.to ~= from or request.from ~= ARGV[4] then return { 'request', 'it is between others' } end
  if request.state ~= 'open' then return { 'request', 'it was answered already: ' .. request.state } end
  if request.expires < NOW then return { 'request', 'it has expired' } end
  request.state = message.approve and 'approved' or 'rejected'
  redis.call('HSET', requests, message.reply_to, cjson.encode(request))
elseif asked then
  redis.call('HSET', requests, message.request, cjson.encode({ kind = asked, from = from, to = ARGV[4], state = 'open',
    expires = NOW + message.expires }))
end
if claim.generation then
  append(from, claim.number, claim.entry)
  redis.call('HINCRBY', agent_key(from), 'tools', 1)
  redis.call('HINCRBY', job_key(job), 'tools', 1)
  redis.call('HSET', agent_key(from), 'activity', 'SendMessage', 'active', NOW)
end
if answered == 'plan' then
  -- The one who asked has parked on it: the answer is the result of its call, not a message.
  close_question(message.reply_to, 'answered', message.approve and 'allow' or 'deny', message.body, '', message.name)
  return { 'ok', publish, tonumber(field(from, 'unread') or '0'), {} }
end
local ids = {}
for i = 4, #ARGV do
  local to = ARGV[i]
  if to ~= job then
    local record = redis.call('HMGET', agent_key(to), 'state', 'parent')
    if TERMINAL[record[1]] then resume(to, job, record[2]) end
  end
  ids[#ids + 1] = deliver(to, from, message.name, message.kind, message.body, asked and message.request or message.reply_to)
end
if message.token ~= '' then redis.call('SET', sent, cjson.encode(ids), 'EX', 3600) end
return { 'ok', publish, tonumber(field(from, 'unread') or '0'), ids }
