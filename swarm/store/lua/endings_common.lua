-- Ends an agent and everything below it, and sets the expiry of an ended job's keys, in steps of bounded size.
--
-- P:job:ID:ending  zset  agents below which everything that began before an era must still end (score: the era). Fields of such an
--                        agent: `ends_why`, the recorded reason; `ends_at`, the cursor in its children
-- P:unfinished     zset  jobs with any of this left to do, by when it began
-- Field of a job: `keeping`, how far its keys' expiry has been set, or, once it is archived, its keys have been removed
--
-- A mark in `ending` refuses every write below it from that step on (`is_doomed`), so for others everything below ends at once. A step ends
-- a limited number; its caller continues with the rest (settle.lua), and the sweep does if the caller dies.

-- Mark everything below `id` that began before `before` for its end: only downwards, never upwards or sideways.
function endings.begin_end_below(id, job, reason, before)
  if redis.call('EXISTS', children_key(id)) == 0 then return end
  redis.call('ZADD', job_key(job, 'ending'), before or redis.call('HINCRBY', job_key(job), 'era', 1), id)
  redis.call('HSET', agent_key(id), 'ends_why', reason, 'ends_at', 0)
  redis.call('ZADD', P .. ':unfinished', 'NX', NOW, job)
end

local function end_some(job)
  local ending = job_key(job, 'ending')
  while left_at_once > 0 do
    local id, before = unpack(redis.call('ZRANGE', ending, 0, 0, 'WITHSCORES'))
    if not id then return end
    local cursor, why = fields(id, 'ends_at', 'ends_why')
    local found = redis.call('SSCAN', children_key(id), cursor or 0, 'COUNT', 10)
    for _, child in ipairs(found[2]) do
      left_at_once = left_at_once - 1
      local state, began = fields(child, 'state', 'era')
      if state and not TERMINAL[state] and count(began) < tonumber(before) then
        endings.end_agent(child, 'cancelled', '', why, true, before)
      else
        -- An agent below one that has ended may still be running.
        endings.begin_end_below(child, job, why, before)
      end
    end
    if found[1] == '0' then
      redis.call('ZREM', ending, id)
      redis.call('HDEL', agent_key(id), 'ends_why', 'ends_at')
    else
      redis.call('HSET', agent_key(id), 'ends_at', found[1])
    end
  end
end

-- The keys of an agent.
function endings.agent_keys(id)
  return { agent_key(id), journal_key(id), children_key(id), P .. ':mail:' .. id, unpack(outputs.keys(id)) }
end

-- The keys of a job besides its record, its agents' keys and the keys that capabilities keep with it.
function endings.job_keys(job)
  local found = { P .. ':events:' .. job, P .. ':mail:' .. job }
  for _, name in ipairs(parts) do found[#found + 1] = job_key(job, name) end
  return found
end

-- Set when a job's keys expire, or keep them, or remove those of an archived one: begun here, completed step by step.
function endings.keep(job, expires)
  redis.call('HSET', job_key(job), 'keeping', 'agents 0')
  redis.call('PERSIST', job_key(job))
  if expires then
    redis.call('HSET', job_key(job), 'expires', expires)
  else
    redis.call('HDEL', job_key(job), 'expires')
  end
  jobs.expire(job, expires or '')
  redis.call('ZADD', P .. ':unfinished', 'NX', NOW, job)
end

local function keep_some(job)
  local at, expires, archived, state = job_fields(job, 'keeping', 'expires', 'archived', 'state')
  if not at then return end
  local function apply(key)
    if archived and not webhooks.is_address(job, key) then
      redis.call('UNLINK', key)
    elseif expires then
      redis.call('EXPIREAT', key, math.floor(expires))
    else
      redis.call('PERSIST', key)
    end
  end
  local part, cursor = at:match('^(%a+) (%d+)$')
  while left_at_once > 0 do
    if part == 'agents' then
      local members = redis.call('ZRANGE', job_key(job, 'agents'), cursor, cursor + 9)
      if archived then archive.note(job, members) end
      for _, member in ipairs(members) do
        for _, key in ipairs(endings.agent_keys(member)) do apply(key) end
      end
      cursor, left_at_once = cursor + #members, left_at_once - 5
      if #members == 0 then part, cursor = 'keys', '0' end
    else
      local found = redis.call('SSCAN', job_key(job, 'keys'), cursor, 'COUNT', 50)
      if archived then archive.note(job, questions.among(found[2])) end
      for _, key in ipairs(found[2]) do apply(key) end
      cursor, left_at_once = found[1], left_at_once - 5
      if cursor == '0' then
        for _, key in ipairs(endings.job_keys(job)) do apply(key) end
        redis.call('HDEL', job_key(job), 'keeping')
        if archived then
          redis.call('HDEL', job_key(job), 'expires')
        elseif expires then
          -- The job's own record expires first: while it exists the job may continue, and then all keys must be saved step by step.
          redis.call('EXPIREAT', job_key(job), math.floor(expires - math.min(60, jobs.retention(job, state) / 20)))
        end
        return
      end
    end
  end
  redis.call('HSET', job_key(job), 'keeping', part .. ' ' .. cursor)
end

-- Do some of a job's remaining work; returns whether any is left.
function endings.settle(job)
  if left_at_once > 0 then end_some(job) end
  if redis.call('EXISTS', job_key(job, 'ending')) == 0 then keep_some(job) end
  if redis.call('EXISTS', job_key(job, 'ending')) == 1 or job_field(job, 'keeping') then return true end
  redis.call('ZREM', P .. ':unfinished', job)
  return false
end

-- End an agent: its last journal entry is written here if `write`, its subtree ends with it, its counters are added to its parent's
-- exactly once, and a parent that waited for it is woken. Returns false if it had ended before.
--   before  the era of the end above it that this one belongs to
--   by      the author of the end, if there is one: an agent or a person
function endings.end_agent(id, state, text, reason, write, before, by)
  local was, job, parent, gen, background, name = fields(id, 'state', 'job', 'parent', 'gen', 'background', 'name')
  if not was or TERMINAL[was] then return false end
  -- Keep the last text of an agent that is ended from outside.
  if write and was == 'running' then budgets.lose_calls(id, job, 'its run ended during the reply', true) end
  if write and text == '' then text = field(id, 'said') or '' end
  if write then
    agents.append(id, job, agents.journal_length(id) + 1, cjson.encode({ v = 1, kind = 'finished', at = NOW, generation = count(gen),
      state = state, text = text, reason = reason }))
  end
  redis.call('HSET', agent_key(id), 'state', state, 'ended', NOW, 'text', text, 'reason', reason, 'activity', '')
  if was == 'queued' then admission.leave_queue(id, job) end
  if was == 'parked' then agents.stop_waiting(id, job) end
  if was == 'running' then kill[#kill + 1] = id end
  admission.leave(id, job)
  endings.begin_end_below(id, job, 'its parent ended: ' .. state, before)
  if not before then end_some(job) end
  for _, act in ipairs(enders) do act(job, id) end
  if was == 'parked' then redis.call('HDEL', agent_key(id), unpack(agents.WAITS)) end
  local told = { 'state', state, 'reason', reason }
  if by then told[5], told[6] = 'by', by end
  emit(job, 'ended', id, unpack(told))
  tally('ended_' .. state)
  if parent and parent ~= '' then
    agents.tell_sums(id, parent)
    if background == '1' and not has_ended(parent) then
      agents.notify(parent, agents.notice_of_end(id, state, text, reason), id, name or id)
    end
    agents.stop_awaiting(parent, id)
  else
    redis.call('HSET', job_key(job), 'ended', NOW, 'text', text, 'reason', reason)
    jobs.set_state(job, state)
    redis.call('ZREM', P .. ':deadlines', job)
    emit(job, 'job_ended', id, 'state', state)
    redis.call('XADD', P .. ':ends', 'MAXLEN', '~', 10000, '*', 'job', job)
    endings.keep(job, NOW + jobs.retention(job, state))
    archive.plan(job)
  end
  if not before and redis.call('ZSCORE', P .. ':unfinished', job) and endings.settle(job) then rest[#rest + 1] = job end
  return true
end

-- Begin the next run of an ended agent: its journal continues. The root's next run reopens its job, with the original time limit.
function endings.resume(id, job, parent)
  local gen, state, text, reason, ended, background = fields(id, 'gen', 'state', 'text', 'reason', 'ended', 'background')
  if parent ~= '' and state == 'completed' and background ~= '1' and redis.call('HEXISTS', agent_key(id), 'earlier_ended') == 0 then
    -- Its parent may not have collected it yet.
    redis.call('HSET', agent_key(id), 'earlier', text, 'earlier_reason', reason, 'earlier_ended', ended)
  end
  agents.append(id, job, agents.journal_length(id) + 1, cjson.encode({ v = 1, kind = 'resumed', at = NOW, generation = count(gen) }))
  redis.call('HDEL', agent_key(id), 'ended', 'stopped_by', 'deaths', 'death_at', 'data', 'said', 'stopped_at')
  redis.call('HINCRBY', agent_key(id), 'resumes', 1)
  local tools, turns = fields(id, 'tools', 'turns')
  redis.call('HSET', agent_key(id), 'run', NOW, 'run_tools', count(tools), 'run_turns', count(turns), 'run_tokens', agents.tokens_of(id))
  redis.call('HSET', agent_key(id), 'reason', '')
  if parent == '' then
    redis.call('HSET', job_key(job), 'reason', '')
    jobs.set_state(job, 'running')
    redis.call('HDEL', job_key(job), 'ended', 'deadline', 'data', 'overtime', 'stopped_at')
    local seconds = job_field(job, 'seconds')
    if seconds then agents.set_deadline(job, tonumber(seconds)) end
    archive.cancel_plan(job)
    endings.keep(job)
    endings.settle(job)
  end
  redis.call('HSET', agent_key(id), 'era', era(job))
  admission.put_on_queue(id)
  emit(job, 'resumed', id)
end
