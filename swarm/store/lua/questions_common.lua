-- Questions to a person, or to the lead of a team.
--
-- P:question:ID        hash  job, agent, label, kind (permission | plan | question | event), tool, title, detail, to (a lead's
--                            id, `event:KEY`, or '' for the person), always (a rule as JSON), state (open | answered | expired | void), answer, reason, mode, by, lasting, asked, expires
-- P:job:ID:questions   set   all questions of the job
-- P:questions          zset  the open ones, by the time they were asked
--
-- P:agent:ID has its open questions, a JSON list, in the field `open_questions`.
--
-- An agent parks in the step that asks; the step that closes one of its questions wakes it.

function questions.key(id) return P .. ':question:' .. id end

-- The questions whose keys are among these.
function questions.among(keys)
  local found, start = {}, questions.key('')
  for _, key in ipairs(keys) do
    if key:sub(1, #start) == start then found[#found + 1] = key:sub(#start + 1) end
  end
  return found
end

function questions.state(id) return redis.call('HGET', questions.key(id), 'state') end

-- The open questions of an agent. One that an older worker asked is only in `wait_question`.
function questions.open_of(agent)
  local first, open = fields(agent, 'wait_question', 'open_questions')
  local found = open and cjson.decode(open) or {}
  for _, id in ipairs(found) do
    if id == first then return found end
  end
  if first then found[#found + 1] = first end
  return found
end

local function keep_open(agent, open)
  if #open > 0 then
    redis.call('HSET', agent_key(agent), 'open_questions', cjson.encode(open))
  else
    redis.call('HDEL', agent_key(agent), 'open_questions')
  end
end

-- Ask a question; `asked` is {kind, tool, title, detail, to?, seconds}. Returns when it expires.
function questions.ask(id, agent, job, asked)
  local expires = NOW + asked.seconds
  local label, name = fields(agent, 'label', 'name')
  redis.call('HSET', questions.key(id), 'job', job, 'agent', agent, 'label', label or '', 'kind', asked.kind,
    'tool', asked.tool, 'title', asked.title, 'detail', asked.detail, 'to', asked.to or '', 'state', 'open', 'asked', NOW,
    'expires', expires, 'always', asked.always or '')
  redis.call('SADD', job_key(job, 'questions'), id)
  keep_with_job(job, questions.key(id))
  redis.call('ZADD', P .. ':questions', NOW, id)
  local open = cjson.decode(field(agent, 'open_questions') or '[]')
  open[#open + 1] = id
  keep_open(agent, open)
  emit(job, 'question', agent, 'question', id, 'sort', asked.kind, 'title', asked.title)
  local key = external_events.event_of(asked.to)
  if key then
    redis.call('SADD', external_events.awaited_key(key), id)
  elseif asked.to then
    redis.call('HSET', job_key(job, 'requests'), id,
      cjson.encode({ kind = 'plan', from = agent, to = asked.to, state = 'open', expires = expires }))
    agents.deliver(asked.to, agent, name or agent, 'plan_request', asked.detail, id)
  end
  return expires
end

-- Close an open question; false if it was closed before.
function questions.close(id, state, answer, reason, mode, by)
  local before, agent, job, to = read(questions.key(id), 'state', 'agent', 'job', 'to')
  if before ~= 'open' then return false end
  redis.call('HSET', questions.key(id), 'state', state, 'answer', answer, 'reason', reason, 'mode', mode, 'by', by, 'closed', NOW)
  redis.call('ZREM', P .. ':questions', id)
  local key = external_events.event_of(to)
  if key then redis.call('SREM', external_events.awaited_key(key), id) end
  emit(job, 'answered', agent, 'question', id, 'state', state, 'answer', key and '' or answer, 'by', by)
  local waits, listed = fields(agent, 'wait_question', 'open_questions')
  local left, was_open = {}, false
  for _, one in ipairs(cjson.decode(listed or '[]')) do
    if one == id then was_open = true else left[#left + 1] = one end
  end
  if was_open then keep_open(agent, left) end
  -- An agent that waits for one of its open questions waits for each of them.
  if waits and (waits == id or was_open) then agents.wake(agent, 'answer') end
  return true
end

-- Ask a question for an event that came earlier, which answers it; returns false if there is no such event.
function questions.ask_the_past(id, agent, job, asked)
  local key = external_events.event_of(asked.to)
  local data, by = read(external_events.external_event_key(key or ''), 'data', 'by')
  if not key or not data then return false end
  questions.ask(id, agent, job, asked)
  return questions.close(id, 'answered', data, '', '', by)
end

-- Questions of an ended agent need no answer.
at_end(function(_, agent)
  for _, id in ipairs(questions.open_of(agent)) do questions.close(id, 'void', '', 'the agent has ended', '', '') end
end)
