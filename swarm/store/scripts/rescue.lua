-- Put back what fell: expired leases, due timers, messages that were lost, jobs beyond their time.
-- ARGV: prefix, max deaths, outbox age in seconds, how many at most, quiet, lease ended early: agent, worker, agent, worker…
-- quiet: four digits, 1 if no message is queued for agents that were woken, for fresh ones at depth 0, at 1, at 2 and below
-- Answers {publish, kill, rescued, quarantined}
local max_deaths, batch = tonumber(ARGV[2]), tonumber(ARGV[4])
local rescued, quarantined = {}, {}

local function rescue(id)
  local record = redis.call('HMGET', agent_key(id), 'state', 'job', 'deaths', 'death_at', 'worker')
  redis.call('ZREM', P .. ':leases', id)
  if record[1] ~= 'running' then return end
  local length = journal_length(id)
  -- Deaths in the same place are counted; progress forgives them.
  local deaths = (record[4] == tostring(length)) and tonumber(record[3] or '0') + 1 or 1
  redis.call('HSET', agent_key(id), 'deaths', deaths, 'death_at', length)
  if deaths >= max_deaths then
    quarantined[#quarantined + 1] = id
    end_agent(id, 'failed', '', 'killed its worker ' .. deaths .. ' times in the same place', true)
  else
    rescued[#rescued + 1] = id
    leave(id, record[2])
    put_on_queue(id)
    emit(record[2], 'rescued', id, 'deaths', deaths, 'worker', record[5] or '')
  end
end

-- A child process that died: its worker's main process knows at once. Only the claim it held is ended.
for i = 6, #ARGV, 2 do
  if field(ARGV[i], 'worker') == ARGV[i + 1] then rescue(ARGV[i]) end
end
if batch == 0 then return { publish, kill, rescued, quarantined } end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. ':leases', '-inf', NOW, 'LIMIT', 0, batch)) do rescue(id) end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. ':timers', '-inf', NOW, 'LIMIT', 0, batch)) do
  redis.call('ZREM', P .. ':timers', id)
  -- Nobody may find a question open that can no longer be answered, even if its agent ends before it looks.
  local question = field(id, 'wait_question')
  if question then close_question(question, 'expired', '', '', '', '') end
  wake(id, 'time')
end
for _, job in ipairs(redis.call('ZRANGEBYSCORE', P .. ':deadlines', '-inf', NOW - 60, 'LIMIT', 0, batch)) do
  redis.call('ZREM', P .. ':deadlines', job)
  end_agent(redis.call('HGET', job_key(job), 'root'), 'timed_out', '', 'the job reached its time limit', true)
end
-- Whoever's kind of message is queued may just have to wait, and is looked at again later. Those come round in turn, so more of
-- them are taken at a time.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. ':ready', '-inf', NOW - tonumber(ARGV[3]), 'LIMIT', 0, batch * 5)) do
  local record = redis.call('HMGET', agent_key(id), 'state', 'gen', 'depth', 'yielded')
  if record[1] == 'queued' then
    redis.call('ZADD', P .. ':ready', NOW, id)
    local kind = record[4] and 2 or record[2] ~= '0' and 1 or math.min(tonumber(record[3]), 2) + 2
    if ARGV[5]:sub(kind, kind) == '1' then publish[#publish + 1] = id end
  else
    redis.call('ZREM', P .. ':ready', id)
  end
end
return { publish, kill, rescued, quarantined }
