-- Send messages to mailboxes of a job, one after the other. A receiver that waits for mail is woken; an ended one that was not cancelled
-- begins its next run. All receivers of a message get it, or none; the first message that cannot be sent ends the step.
--   claimed   JSON: {} from outside; from an agent {agent, generation, number}: number of its journal's next entry
--   messages  JSON each: {job, from, name, kind, body, reply_to, max_unread, to: [receiver...], live_only?, once, request?, expires?,
--             approve?, most, entry, token}
--             `most`: the most MiB of a mailbox, and of all mailboxes of the job
--             a kind *_request opens the request `request` until `expires` seconds from now; a *_response answers `reply_to`
--             `entry` is the result of the agent's call: it enters its journal in the same step
--             `once` names the broadcast of this part: a receiver that already has it is skipped; a part without `entry` is
--             not the last one
--             `token` is set only from outside, where no journal shows a repeat: its answer is kept for an hour
-- Returns {'ok', publish, unread of the sender, number sent, ids of the last one in the mailboxes, why the next was not...}
--   | {'repeat', number sent} | {'stale'} | {'cancelled'}
--   why: 'unknown', receiver | 'ended', receiver, state | 'worn out', receiver | 'full', receiver | 'full', receiver, 'agent' | 'job', the most MiB | 'over'
--     | 'request', 'missing' | 'kind', its kind | 'others' | 'answered', its state | 'expired' | 'closed', its state

local function open_request(message, kind)
  redis.call('HSET', job_key(message.job, 'requests'), message.request, cjson.encode({ kind = kind, from = message.from,
    to = message.to[1], state = 'open', expires = NOW + message.expires }))
end

-- Mark the request that a message answers; returns the reason if it cannot be answered.
local function answer_request(message, kind)
  local requests = job_key(message.job, 'requests')
  local known = redis.call('HGET', requests, message.reply_to)
  if not known then return { 'request', 'missing' } end
  local request = cjson.decode(known)
  if request.kind ~= kind then return { 'request', 'kind', request.kind } end
  if request.to ~= message.from or request.from ~= message.to[1] then return { 'request', 'others' } end
  if request.state ~= 'open' then return { 'request', 'answered', request.state } end
  if request.expires < NOW then return { 'request', 'expired' } end
  local closed = kind == 'plan' and questions.state(message.reply_to)
  if closed and closed ~= 'open' then return { 'request', 'closed', closed } end
  request.state = message.approve and 'approved' or 'rejected'
  redis.call('HSET', requests, message.reply_to, cjson.encode(request))
end

local function why_not(message)
  local job = message.job
  local job_state, root, waiting, job_bytes = job_fields(job, 'state', 'root', 'unread', 'mail_bytes')
  if not job_state then return { 'over' } end
  local own_mib, job_mib = unpack(message.most)
  if count(job_bytes) + #message.to * #message.body > job_mib * 2^20 then return { 'full', message.to[1], 'job', job_mib } end
  for _, to in ipairs(message.to) do
    if to == job then
      if count(waiting) >= message.max_unread then return { 'full', to } end
    else
      local state, of, unread, unread_notes, bytes = fields(to, 'state', 'job', 'unread', 'unread_notes', 'mail_bytes')
      if of ~= job then return { 'unknown', to } end
      if state == 'cancelled' or (message.live_only and TERMINAL[state]) then return { 'ended', to, state } end
      if not TERMINAL[state] and is_doomed(to) then return { 'ended', to, 'cancelled' } end
      if TERMINAL[job_state] and to ~= root then return { 'over' } end
      if message.from ~= job and agents.is_worn_out(to, job) then return { 'worn out', to } end
      -- An ended agent reads again because of this message, so its mailbox cannot stay full for ever.
      if not TERMINAL[state] and count(unread) - count(unread_notes) >= message.max_unread then return { 'full', to } end
      if count(bytes) + #message.body > own_mib * 2^20 then return { 'full', to, 'agent', own_mib } end
    end
  end
  local asks, answers = message.kind:match('^(.*)_request$'), message.kind:match('^(.*)_response$')
  if answers then return answer_request(message, answers) end
  if asks then open_request(message, asks) end
end

-- Returns the message's ids in the mailboxes.
local function post(message)
  if message.kind == 'plan_response' then
    -- The asking agent is parked: the answer is its call's result, not a message.
    questions.close(message.reply_to, 'answered', message.approve and 'allow' or 'deny', message.body, '', message.name)
    return {}
  end
  local ids = {}
  local about = message.kind:match('_request$') and message.request or message.reply_to
  local reached = message.once ~= '' and P .. ':sent:' .. message.once
  for _, to in ipairs(message.to) do
    local again = reached and redis.call('SADD', reached, to) == 0
    if not again and to ~= message.job then
      local state, parent = fields(to, 'state', 'parent')
      if TERMINAL[state] then
        endings.resume(to, message.job, parent)
        -- Its parent has the previous run's answer; this run's answer comes as a notice.
        if message.from == parent then redis.call('HSET', agent_key(to), 'background', '1') end
      end
    end
    if not again then ids[#ids + 1] = agents.deliver(to, message.from, message.name, message.kind, message.body, about) end
  end
  if reached then redis.call('EXPIRE', reached, 86400) end
  return ids
end

step('send', function(claimed, messages)
  local claim = cjson.decode(claimed)
  if claim.generation then
    -- A repeat may have stopped before its last message.
    local done = agents.journal_length(claim.agent) - claim.number + 1
    local refused = agents.refusal(claim.agent, tostring(claim.generation), { running = true }, claim.number, math.max(done, 1))
    if refused then return { refused, done } end
  end
  local sent, written, ids, refused = 0, 0, {}, {}
  for _, document in ipairs(messages) do
    local message = cjson.decode(document)
    local token = P .. ':sent:' .. message.token
    -- Agents that the first attempt put on the queue are in the outbox, so only the ids must be returned.
    local before = message.token ~= '' and redis.call('GET', token)
    if before then return { 'ok', publish, 0, 1, cjson.decode(before) } end
    refused = why_not(message) or {}
    if refused[1] then break end
    if claim.generation and message.entry ~= '' then
      agents.append(claim.agent, message.job, claim.number + written, message.entry)
      written = written + 1
    end
    ids = post(message)
    if message.token ~= '' then redis.call('SET', token, cjson.encode(ids), 'EX', 3600) end
    sent = sent + 1
  end
  local unread = 0
  if claim.generation then
    local job
    job, unread = fields(claim.agent, 'job', 'unread')
    if written > 0 then
      add(agent_key(claim.agent), 'tools', written)
      add(job_key(job), 'tools', written)
      tally('tools', written)
      redis.call('HSET', agent_key(claim.agent), 'activity', 'SendMessage', 'active', NOW)
    end
  end
  return { 'ok', publish, count(unread), sent, ids, unpack(refused) }
end, { list_after = 1 })
