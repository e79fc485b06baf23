-- Handle expired leases, due timers, lost messages, and jobs beyond their time limit.
--   batch     maximum number of each; 0: check only `dead`
--   messages  JSON: the agents whose messages are queued
--   fresh     check leases only if a sweep has begun within so many seconds: otherwise Redis was away between the sweep and this step
--             (which may have waited in its queue), and no lease could be renewed; '': check them in any case
--   dead      leases that ended early: agent, worker, agent, worker…
-- Returns {publish, kill, rescued, quarantined}

-- Time for a job's root to give its final answer after the job's time limit.
local GRACE_SECONDS = 60

-- Let a waiting agent continue now. Its questions that are due are closed, so that an unanswerable one is never open, even if the agent
-- ends before it looks; a workflow's own timers wake it earlier.
local function ring(id, anyway)
  for _, question in ipairs(questions.open_of(id)) do
    if anyway or tonumber(redis.call('HGET', questions.key(question), 'expires') or 0) <= NOW then
      questions.close(question, 'expired', '', '', '', '')
    end
  end
  agents.wake(id, 'time')
end

-- Handle a job's time limit: everything below its root ends, and the root is woken for its final answer. A root still busy with earlier
-- work is interrupted after half the grace time. After the grace time it ends as it is.
local function time_out(job)
  local root, overtime, deadline = job_fields(job, 'root', 'overtime', 'deadline')
  local reason = 'the job reached its time limit'
  if overtime == '2' then
    redis.call('ZREM', P .. ':deadlines', job)
    endings.end_agent(root, 'timed_out', '', reason, true)
    return
  end
  redis.call('HSET', job_key(job), 'overtime', overtime and '2' or '1')
  redis.call('ZADD', P .. ':deadlines', NOW + GRACE_SECONDS / 2, job)
  if not overtime then
    endings.begin_end_below(root, job, reason)
    endings.settle(job)
    ring(root, true)
    return
  end
  local state, active = fields(root, 'state', 'active')
  if state == 'running' and count(active) < count(deadline) then kill[#kill + 1] = root end
end

step('rescue', function(max_deaths, outbox_age_seconds, batch, messages, fresh, dead)
  batch = tonumber(batch)
  local rescued, quarantined = {}, {}

  local function rescue(id)
    local state, job, deaths, death_at, worker = fields(id, 'state', 'job', 'deaths', 'death_at', 'worker')
    redis.call('ZREM', P .. ':leases', id)
    if state ~= 'running' then return end
    local length = agents.journal_length(id)
    -- Deaths at the same journal length are counted; progress resets the count.
    deaths = death_at == tostring(length) and count(deaths) + 1 or 1
    budgets.lose_calls(id, job, 'its worker died during the reply', true)
    summaries.lose(id, job)
    redis.call('HSET', agent_key(id), 'deaths', deaths, 'death_at', agents.journal_length(id))
    if deaths >= tonumber(max_deaths) then
      quarantined[#quarantined + 1] = id
      endings.end_agent(id, 'failed', '', 'killed its worker ' .. deaths .. ' times in the same place', true)
    else
      rescued[#rescued + 1] = id
      admission.leave(id, job)
      admission.put_on_queue(id)
      emit(job, 'rescued', id, 'deaths', deaths, 'worker', worker or '')
      tally('rescued')
    end
  end

  local function due(clock, before, most)
    return ipairs(redis.call('ZRANGEBYSCORE', P .. ':' .. clock, '-inf', before, 'LIMIT', 0, most))
  end

  -- A dead child process: its worker's main process knows at once. Only the claim it held is ended.
  for i = 1, #dead, 2 do
    if field(dead[i], 'worker') == dead[i + 1] then rescue(dead[i]) end
  end
  if batch == 0 then return { publish, kill, rescued, quarantined } end
  if fresh == '' or NOW - count(redis.call('GET', P .. ':pulse')) <= tonumber(fresh) then
    for _, id in due('leases', NOW, batch) do rescue(id) end
  end
  for _, id in due('timers', NOW, batch) do
    redis.call('ZREM', P .. ':timers', id)
    ring(id)
  end
  for _, job in due('deadlines', NOW, batch) do time_out(job) end
  for _, id in due('aside', NOW, batch) do
    redis.call('ZREM', P .. ':aside', id)
    if field(id, 'state') == 'queued' then admission.put_on_queue(id) end
  end
  -- An agent with a queued message only has to wait, and is checked again later.
  local queued = {}
  for _, id in ipairs(cjson.decode(messages)) do queued[id] = true end
  for _, id in due('ready', NOW - tonumber(outbox_age_seconds), batch * 5) do
    local state, job = fields(id, 'state', 'job')
    if state == 'queued' then
      redis.call('ZADD', P .. ':ready', NOW, id)
      if not queued[id] then publish[#publish + 1] = admission.wakeup(id) end
    else
      redis.call('ZREM', P .. ':ready', id)
      if job then redis.call('SREM', job_key(job, 'called'), id) end
    end
  end
  moved = true
  return { publish, kill, rescued, quarantined }
end, { when_full = true, list_after = 5 })
