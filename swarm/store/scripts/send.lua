-- Send messages to mailboxes of a job, one after the other; a receiver that waits for mail is woken, one that has ended (and was
-- not cancelled) begins its next run. All receivers of a message get it, or none; the first that cannot be sent ends the step.
-- ARGV: prefix, claim JSON, message JSON...
--   claim    {} from outside; from an agent {agent, generation, number}: its journal's next entry
--   message  {job, from, name, kind, body, reply_to, max_unread, to: [receiver...], live_only?, request?, expires?, approve?, entry,
--            token}
--            a kind *_request opens the request `request` until `expires` seconds from now; a *_response answers `reply_to`
--            `entry` is the result of the agent's call: it enters its journal in the same step
--            `token` is set from outside only, where no journal tells a repeat: its answer is kept for an hour
-- Answers {'ok', publish, unread of the sender, how many were sent, ids of the last one in the mailboxes, why the next was not...}
--   | {'repeat', how many were sent} | {'stale'} | {'cancelled'}
--   why: 'unknown', receiver | 'ended', receiver, state | 'full', receiver | 'over' | 'request', why it cannot be answered
local claim = cjson.decode(ARGV[2])
if claim.generation then
  -- A repeat may have stopped before its last message.
  local done = journal_length(claim.agent) - claim.number + 1
  local refused = refusal(claim.agent, tostring(claim.generation), { running = true }, claim.number, math.max(done, 1))
  if refused then return { refused, done } end
end

local function why_not(message)
  local job = message.job
  local over = redis.call('HMGET', job_key(job), 'state', 'root', 'unread')
  if not over[1] then return { 'over' } end
  for _, to in ipairs(message.to) do
    if to == job then
      if tonumber(over[3] or '0') >= message.max_unread then return { 'full', to } end
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
    if request.to ~= message.from or request.from ~= message.to[1] then return { 'request', 'it is between others' } end
    if request.state ~= 'open' then return { 'request', 'it was answered already: ' .. request.state } end
    if request.expires < NOW then return { 'request', 'it has expired' } end
    local closed = answered == 'plan' and question_state(message.reply_to)
    if closed and closed ~= 'open' then return { 'request', 'it was closed already: ' .. closed } end
    request.state = message.approve and 'approved' or 'rejected'
    redis.call('HSET', requests, message.reply_to, cjson.encode(request))
  elseif asked then
    redis.call('HSET', requests, message.request, cjson.encode({ kind = asked, from = message.from, to = message.to[1],
      state = 'open', expires = NOW + message.expires }))
  end
end

-- Answers the message's ids in the mailboxes.
local function post(message)
  if message.kind == 'plan_response' then
    -- The one who asked has parked on it: the answer is the result of its call, not a message.
    close_question(message.reply_to, 'answered', message.approve and 'allow' or 'deny', message.body, '', message.name)
    return {}
  end
  local ids = {}
  local about = message.kind:match('_request$') and message.request or message.reply_to
  for _, to in ipairs(message.to) do
    if to ~= message.job then
      local record = redis.call('HMGET', agent_key(to), 'state', 'parent')
      if TERMINAL[record[1]] then
        resume(to, message.job, record[2])
        -- Its parent has had the answer of the run before; that of this one comes as a notice.
        if message.from == record[2] then redis.call('HSET', agent_key(to), 'background', '1') end
      end
    end
    ids[#ids + 1] = deliver(to, message.from, message.name, message.kind, message.body, about)
  end
  return ids
end

local sent, ids, refused = 0, {}, {}
for i = 3, #ARGV do
  local message = cjson.decode(ARGV[i])
  local token = P .. ':sent:' .. message.token
  -- Whoever the first attempt put on the queue is in the outbox, so nothing but the ids is left to tell.
  local before = message.token ~= '' and redis.call('GET', token)
  if before then return { 'ok', publish, 0, 1, cjson.decode(before) } end
  refused = why_not(message) or {}
  if refused[1] then break end
  if claim.generation then append(claim.agent, claim.number + sent, message.entry) end
  ids = post(message)
  if message.token ~= '' then redis.call('SET', token, cjson.encode(ids), 'EX', 3600) end
  sent = sent + 1
end
if claim.generation and sent > 0 then
  redis.call('HINCRBY', agent_key(claim.agent), 'tools', sent)
  redis.call('HINCRBY', job_key(field(claim.agent, 'job')), 'tools', sent)
  redis.call('HSET', agent_key(claim.agent), 'activity', 'SendMessage', 'active', NOW)
end
return { 'ok', publish, claim.agent and tonumber(field(claim.agent, 'unread') or '0') or 0, sent, ids, unpack(refused) }
